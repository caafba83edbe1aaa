// SPDX-License-Identifier: Apache-2.0
#include "text/added_tokens/token_starts.hpp"

#include "base/machine.hpp"

namespace lm::text {
namespace {

constexpr size_t npos = std::string_view::npos;

bool has_blocks() {
#if defined(__x86_64__)
    return may_use(Vectors::avx2) && __builtin_cpu_supports("avx2");
#else
    return false;
#endif
}

size_t pair_of(char first, char second) {
    return static_cast<size_t>(static_cast<u8>(first)) << 8 | static_cast<u8>(second);
}

}  // namespace

TokenStarts::TokenStarts() : by_blocks_(has_blocks()) {}

void TokenStarts::Halves::add(u8 byte, u8 group) {
    low[byte & 15] |= group;
    high[byte >> 4] |= group;
}

void TokenStarts::Halves::add_any(u8 group) {
    for (size_t half = 0; half < 16; ++half) {
        low[half] |= group;
        high[half] |= group;
    }
}

void TokenStarts::add(std::string_view token) {
    const auto lead = static_cast<u8>(token[0]);
    // The group is a mixture of the bits of the first byte, so that different first bytes are
    // spread over the eight groups.
    const auto group = static_cast<u8>(1 << ((lead ^ lead >> 3 ^ lead >> 6) & 7));
    first_.add(lead, group);
    if (token.size() == 1) {
        // Any byte may follow a token of one byte.
        second_.add_any(group);
        alone_[lead] = true;
        for (size_t second = 0; second < 256; ++second) pairs_[size_t{lead} << 8 | second] = true;
    } else {
        second_.add(static_cast<u8>(token[1]), group);
        pairs_[pair_of(token[0], token[1])] = true;
    }
    leads_[lead] = true;
    only_lead_ = leads_.count() == 1 ? std::optional(token[0]) : std::nullopt;
}

size_t TokenStarts::find(std::string_view text, size_t from) const {
    if (by_blocks_) {
        if (const size_t at = find_by_blocks(text, from); at != npos) return at;
    }
    // At most 32 bytes at the end of the text are in no block. find_by_blocks() has set `from` to
    // the first of these bytes.
    return find_one_by_one(text, from);
}

size_t TokenStarts::find_one_by_one(std::string_view text, size_t from) const {
    for (; from < text.size(); ++from) {
        if (only_lead_) from = text.find(*only_lead_, from);
        if (from == npos) return npos;
        const bool is_last = from + 1 == text.size();
        if (is_last ? alone_[static_cast<u8>(text[from])]
                    : pairs_[pair_of(text[from], text[from + 1])])
            return from;
    }
    return npos;
}

#if !defined(__x86_64__)
size_t TokenStarts::find_by_blocks(std::string_view, size_t&) const {
    return npos;
}
#endif

}  // namespace lm::text
