// SPDX-License-Identifier: Apache-2.0
#include "text/added_tokens/token_starts.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

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
    const auto group = static_cast<u8>(1 << ((lead ^ lead >> 3 ^ lead >> 6) & 7));
    first_.add(lead, group);
    if (token.size() == 1) {
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

#if defined(__x86_64__)

#define LM_AVX2_INLINE __attribute__((target("avx2"), always_inline)) inline

namespace {

LM_AVX2_INLINE __m256i table_of(const std::array<u8, 16>& halves) {
    return _mm256_broadcastsi128_si256(
        _mm_load_si128(reinterpret_cast<const __m128i*>(halves.data())));
}

// Of each of the 32 bytes at `at`.
LM_AVX2_INLINE __m256i groups_of(const char* at, __m256i low, __m256i high) {
    const __m256i half = _mm256_set1_epi8(15);
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
    const __m256i above = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), half);
    return _mm256_and_si256(_mm256_shuffle_epi8(low, _mm256_and_si256(bytes, half)),
                            _mm256_shuffle_epi8(high, above));
}

}  // namespace

// Looks at whole blocks; without a place in these, `from` is behind them.
__attribute__((target("avx2"))) size_t TokenStarts::find_by_blocks(std::string_view text,
                                                                   size_t& from) const {
    constexpr size_t block = 32;
    const __m256i low_1 = table_of(first_.low), high_1 = table_of(first_.high);
    const __m256i low_2 = table_of(second_.low), high_2 = table_of(second_.high);
    for (; from + block < text.size(); from += block) {
        const char* at = text.data() + from;
        const __m256i both =
            _mm256_and_si256(groups_of(at, low_1, high_1), groups_of(at + 1, low_2, high_2));
        const __m256i none = _mm256_cmpeq_epi8(both, _mm256_setzero_si256());
        const auto found = ~static_cast<u32>(_mm256_movemask_epi8(none));
        if (found != 0) return from + static_cast<size_t>(__builtin_ctz(found));
    }
    return npos;
}

#else

size_t TokenStarts::find_by_blocks(std::string_view, size_t&) const {
    return npos;
}

#endif

}  // namespace lm::text
