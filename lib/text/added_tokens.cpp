// SPDX-License-Identifier: Apache-2.0
#include "text/added_tokens.hpp"

#include <algorithm>

#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace lm::text {
namespace {

// The character that ends at `end` > 0.
u32 char_before(std::string_view text, size_t end, size_t* begin) {
    size_t at = end - 1;
    while (at > 0 && end - at < 4 && (static_cast<u8>(text[at]) & 0xC0) == 0x80) --at;
    *begin = at;
    return decode_utf8(text.substr(at, end - at)).code_point;
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens, bool ignore_special)
    : ignore_special_(ignore_special), tokens_(std::move(tokens)) {
    std::ranges::sort(tokens_, {}, &AddedToken::content);
    for (const AddedToken& token : tokens_) {
        is_lead_[static_cast<u8>(token.content[0])] = true;
    }
    if (!tokens_.empty() && tokens_.front().content[0] == tokens_.back().content[0])
        only_lead_ = static_cast<u8>(tokens_.front().content[0]);
}

// Tokens that share a beginning stand together: each byte of `text` narrows the range.
const AddedToken* AddedTokenMatcher::longest_at(std::string_view text) const {
    const AddedToken* longest = nullptr;
    auto first = tokens_.begin();
    auto last = tokens_.end();
    for (size_t depth = 0; first != last; ++depth) {
        if (first->content.size() == depth) longest = &*first++;
        if (depth == text.size()) break;
        const auto byte = static_cast<u8>(text[depth]);
        const auto byte_at = [depth](const AddedToken& token) {
            return static_cast<u8>(token.content[depth]);
        };
        first = std::partition_point(first, last, [&](const auto& t) { return byte_at(t) < byte; });
        last = std::partition_point(first, last, [&](const auto& t) { return byte_at(t) == byte; });
    }
    return longest;
}

size_t AddedTokenMatcher::next_lead(std::string_view text, size_t from) const {
    if (tokens_.empty()) return std::string_view::npos;
    if (only_lead_) return text.find(static_cast<char>(*only_lead_), from);
    while (from < text.size() && !is_lead_[static_cast<u8>(text[from])]) ++from;
    return from < text.size() ? from : std::string_view::npos;
}

AddedTokenMatcher::Match AddedTokenMatcher::find(std::string_view text, size_t from) const {
    for (size_t i = next_lead(text, from); i != std::string_view::npos;
         i = next_lead(text, i + 1)) {
        const AddedToken* token = longest_at(text.substr(i));
        if (token != nullptr) return {i, i + token->content.size(), token};
    }
    return {0, 0, nullptr};
}

bool AddedTokenMatcher::ignored(std::string_view whole, const Match& match) const {
    if (match.token->special && ignore_special_) return true;
    if (!match.token->single_word) return false;
    size_t begin;
    if (match.begin > 0 && is_word_char(char_before(whole, match.begin, &begin))) return true;
    return match.end < whole.size() &&
           is_word_char(decode_utf8(whole.substr(match.end)).code_point);
}

size_t AddedTokenMatcher::strip_before(std::string_view whole, size_t begin, size_t least) {
    while (begin > least) {
        size_t before;
        if (class_table()[char_before(whole, begin, &before)] != CharClass::space) return begin;
        begin = before;
    }
    return least;  // also where the match begins before it
}

size_t AddedTokenMatcher::strip_behind(std::string_view whole, size_t end) {
    while (end < whole.size()) {
        const Decoded c = decode_utf8(whole.substr(end));
        if (class_table()[c.code_point] != CharClass::space) break;
        end += static_cast<size_t>(c.length);
    }
    return end;
}

}  // namespace lm::text
