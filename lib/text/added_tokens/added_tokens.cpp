// SPDX-License-Identifier: Apache-2.0
#include "text/added_tokens/added_tokens.hpp"

#include <cstring>

#include "base/utf8.hpp"
#include "text/unicode/char_classes.hpp"

namespace lm::text {
namespace {

// Returns the code point that ends at `end` > 0, and sets `begin` to its offset.
u32 char_before(std::string_view text, size_t end, size_t* begin) {
    size_t at = end - 1;
    while (at > 0 && end - at < 4 && (static_cast<u8>(text[at]) & 0xC0) == 0x80) --at;
    *begin = at;
    return decode_utf8(text.substr(at, end - at)).code_point;
}

// Returns the length of the longest common prefix of `a` and `b`.
size_t common_length(std::string_view a, std::string_view b) {
    const size_t n = std::min(a.size(), b.size());
    size_t i = 0;
    for (; i + 8 <= n && std::memcmp(a.data() + i, b.data() + i, 8) == 0;) i += 8;
    while (i < n && a[i] == b[i]) ++i;
    return i;
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens, bool ignore_special)
    : ignore_special_(ignore_special), tokens_(std::move(tokens)), prefix_of_(tokens_.size()) {
    std::ranges::sort(tokens_, {}, &AddedToken::content);
    for (size_t i = 0; i < tokens_.size(); ++i) {
        const std::string& content = tokens_[i].content;
        starts_.add(content);
        size_t prefix = i == 0 ? 0 : i - 1;
        while (!content.starts_with(tokens_[prefix].content) && prefix_of_[prefix] != prefix)
            prefix = prefix_of_[prefix];
        prefix_of_[i] = content.starts_with(tokens_[prefix].content) ? prefix : i;
    }
}

// Returns the longest token that is a prefix of `text`, or nullptr. Let t be the last token that
// does not sort after `text`. If a token p is a prefix of `text`, every string that sorts between p
// and `text` has the prefix p. So p is t or a prefix of t. The function follows prefix_of_ from t
// to the prefixes of t. This needs no further comparisons of whole strings, which may be long and
// similar.
const AddedToken* AddedTokenMatcher::longest_at(std::string_view text) const {
    const auto behind = std::ranges::upper_bound(tokens_, text, {}, &AddedToken::content);
    if (behind == tokens_.begin()) return nullptr;
    auto i = static_cast<size_t>(behind - tokens_.begin()) - 1;
    const size_t common = common_length(tokens_[i].content, text);
    while (tokens_[i].content.size() > common) {
        if (prefix_of_[i] == i) return nullptr;
        i = prefix_of_[i];
    }
    return &tokens_[i];
}

AddedTokenMatcher::Match AddedTokenMatcher::find(std::string_view text, size_t from) const {
    if (tokens_.empty()) return {0, 0, nullptr};
    for (size_t i = starts_.find(text, from); i != std::string_view::npos;
         i = starts_.find(text, i + 1)) {
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
    return least;  // also if `begin` < `least`
}

size_t AddedTokenMatcher::strip_after(std::string_view whole, size_t end) {
    while (end < whole.size()) {
        const DecodedChar c = decode_utf8(whole.substr(end));
        if (class_table()[c.code_point] != CharClass::space) break;
        end += static_cast<size_t>(c.length);
    }
    return end;
}

}  // namespace lm::text
