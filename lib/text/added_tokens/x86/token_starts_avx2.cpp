// SPDX-License-Identifier: Apache-2.0
#include "text/added_tokens/token_starts.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#define LM_AVX2_INLINE __attribute__((target("avx2"), always_inline)) inline

namespace lm::text {
namespace {

LM_AVX2_INLINE __m256i table_of(const std::array<u8, 16>& halves) {
    return _mm256_broadcastsi128_si256(
        _mm_load_si128(reinterpret_cast<const __m128i*>(halves.data())));
}

// Returns, for each of the 32 bytes at `at`, a mask of the groups that the byte can belong to.
LM_AVX2_INLINE __m256i groups_of(const char* at, __m256i low, __m256i high) {
    const __m256i half = _mm256_set1_epi8(15);
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
    const __m256i above = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), half);
    return _mm256_and_si256(_mm256_shuffle_epi8(low, _mm256_and_si256(bytes, half)),
                            _mm256_shuffle_epi8(high, above));
}

}  // namespace

// Tests whole blocks of 32 positions, starting at `from`. Returns the first position where a token
// can begin. If no block has such a position, returns npos and sets `from` to the first position
// that was not tested.
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
    return std::string_view::npos;
}

}  // namespace lm::text

#endif
