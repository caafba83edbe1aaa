// SPDX-License-Identifier: Apache-2.0
#include "data/jsonl/x86/unescape_avx512.hpp"

#include "base/error.hpp"
#include "base/machine.hpp"
#include "base/types.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#define LM_AVX512 __attribute__((target("avx512f,avx512bw,avx512vbmi2,bmi,bmi2,popcnt")))
#define LM_AVX512_INLINE \
    __attribute__((target("avx512f,avx512bw,avx512vbmi2,bmi,bmi2,popcnt"), always_inline)) inline

namespace lm::data {
namespace {

LM_AVX512_INLINE u64 equal(__m512i block, char c) {
    return _mm512_cmpeq_epi8_mask(block, _mm512_set1_epi8(c));
}

// Returns the backslashes that begin an escape: in a run of backslashes, the first, the third and
// so on. The block must not begin within an escape.
LM_AVX512_INLINE u64 escape_starts(u64 backslashes) {
    if ((backslashes & (backslashes << 1)) == 0) return backslashes;
    u64 starts = 0;
    while (backslashes != 0) {
        const u64 first = backslashes & (0 - backslashes);
        starts |= first;
        backslashes &= ~(first | first << 1);
    }
    return starts;
}

}  // namespace

bool has_unescape_avx512() {
    return may_use(Vectors::avx512) && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("bmi2");
}

LM_AVX512 Unescaped unescape_avx512(const char* p, char* out) {
    u64 high = 0;  // bytes of 0x80 and above
    for (;;) {
        const __m512i block = _mm512_loadu_si512(p);
        const u64 starts = escape_starts(equal(block, '\\'));
        const u64 escaped = starts << 1;
        const u64 n = escaped & equal(block, 'n');
        const u64 t = escaped & equal(block, 't');
        const u64 r = escaped & equal(block, 'r');
        // The escape of each of these characters decodes to the character itself, so only the
        // backslash is dropped.
        const u64 same = equal(block, '"') | equal(block, '\\') | equal(block, '/');
        const u64 unknown = escaped & ~(n | t | r | same);
        const u64 control = _mm512_cmplt_epu8_mask(block, _mm512_set1_epi8(0x20));
        const u64 quotes = equal(block, '"') & ~escaped;
        // When the last byte is a backslash, the escaped character is in the next block. The
        // decoder stops there, and the next block begins with this backslash.
        const u64 cut = starts & u64{1} << 63;
        const u64 stops = quotes | control | unknown >> 1 | cut;
        // The bytes before the first bit of `stops`; all 64 bytes when `stops` is 0.
        const u64 taken = _blsmsk_u64(stops) & ~(stops & (0 - stops));
        __m512i decoded = _mm512_mask_mov_epi8(block, n, _mm512_set1_epi8('\n'));
        decoded = _mm512_mask_mov_epi8(decoded, t, _mm512_set1_epi8('\t'));
        decoded = _mm512_mask_mov_epi8(decoded, r, _mm512_set1_epi8('\r'));
        const u64 kept = taken & ~starts;
        // Stores 64 bytes. The next store overwrites the bytes after the kept ones.
        _mm512_storeu_si512(out, _mm512_maskz_compress_epi8(kept, decoded));
        high |= _mm512_movepi8_mask(block) & taken;
        out += _mm_popcnt_u64(kept);
        p += _mm_popcnt_u64(taken);
        if ((stops & ~cut) != 0) break;
    }
    return {p, out, high == 0};
}

}  // namespace lm::data

#else

namespace lm::data {

bool has_unescape_avx512() {
    return false;
}
Unescaped unescape_avx512(const char*, char*) {
    bug(__FILE__, __LINE__, "expected a machine with AVX-512");
}

}  // namespace lm::data

#endif
