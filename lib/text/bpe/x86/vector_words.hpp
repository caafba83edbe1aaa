// SPDX-License-Identifier: Apache-2.0
// Arrays of 16, 32 or 64 numbers of 16 or 32 bits in vector registers, and the operations on them
// that the vector merger needs. For AVX-512 with VBMI2.
#pragma once

#if defined(__x86_64__)
// g++ 12 warns about code in the compiler's own headers (GCC bug 105593).
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include "base/types.hpp"

#define LM_VBMI2 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi2,bmi,bmi2,popcnt")))
#define LM_VBMI2_INLINE                                                             \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi2,bmi,bmi2,popcnt"), \
                   always_inline)) inline

namespace lm::text {

// Operations on `width` numbers in registers. Bit i of a mask stands for number i.
//   set: replaces the numbers at the bits `at` by `value`.
//   remove: removes the number at the single bit `which`; the numbers after it move left, and
//   `last` becomes the last number.
//   equal: returns the bits of the numbers that equal `value`.
//   least_of: returns the minimum, in the lowest element of the result.
template <typename Number, size_t width>
struct Words;

template <>
struct Words<u16, 16> {
    using Register = __m256i;
    LM_VBMI2_INLINE static Register load(const u16* from) {
        return _mm256_load_si256(reinterpret_cast<const __m256i*>(from));
    }
    LM_VBMI2_INLINE static void store(u16* to, Register values) {
        _mm256_store_si256(reinterpret_cast<__m256i*>(to), values);
    }
    LM_VBMI2_INLINE static void store_ids(i32* to, Register values) {
        _mm512_store_si512(to, _mm512_cvtepu16_epi32(values));
    }
    LM_VBMI2_INLINE static Register set(Register values, u64 at, __m128i value) {
        return _mm256_mask_broadcastw_epi16(values, static_cast<__mmask16>(at), value);
    }
    LM_VBMI2_INLINE static Register remove(Register values, u64 which, u32 last) {
        // The compression moves the other numbers to the left. The one free element at the right
        // end gets `last`.
        return _mm256_mask_compress_epi16(_mm256_set1_epi16(static_cast<short>(last)),
                                          static_cast<__mmask16>(~which), values);
    }
    LM_VBMI2_INLINE static u64 equal(Register values, __m128i value) {
        return _mm256_cmpeq_epi16_mask(values, _mm256_broadcastw_epi16(value));
    }
    LM_VBMI2_INLINE static __m128i least_of(Register values) {
        // _mm_minpos_epu16 puts the minimum of 8 numbers into the lowest element.
        return _mm_minpos_epu16(
            _mm_min_epu16(_mm256_castsi256_si128(values), _mm256_extracti128_si256(values, 1)));
    }
};

// The operations of Words on the numbers in one register of 64 bytes.
template <typename Number>
struct Whole;

template <>
struct Whole<u16> {
    LM_VBMI2_INLINE static __m512i all(u32 value) {
        return _mm512_set1_epi16(static_cast<short>(value));
    }
    LM_VBMI2_INLINE static __m512i set(__m512i values, u64 at, __m128i value) {
        return _mm512_mask_broadcastw_epi16(values, static_cast<__mmask32>(at), value);
    }
    // Replaces each number at the bits `which` by its right neighbour. The right neighbour of the
    // last number is the first number of `following`. AVX-512 has no alignr of 16-bit elements
    // across lanes, so this function uses alignr of 32-bit elements and two shifts within these
    // elements.
    LM_VBMI2_INLINE static __m512i shift(__m512i values, u64 which, __m512i following) {
        const __m512i joined =
            _mm512_alignr_epi32(following, values, 1);  // the numbers two positions to the right
        const __m512i shifted =
            _mm512_or_si512(_mm512_srli_epi32(values, 16), _mm512_slli_epi32(joined, 16));
        return _mm512_mask_mov_epi16(values, static_cast<__mmask32>(which), shifted);
    }
    LM_VBMI2_INLINE static u64 equal(__m512i values, __m128i value) {
        return _mm512_cmpeq_epi16_mask(values, _mm512_broadcastw_epi16(value));
    }
    LM_VBMI2_INLINE static __m512i least(__m512i a, __m512i b) { return _mm512_min_epu16(a, b); }
    LM_VBMI2_INLINE static __m128i least_of(__m512i values) {
        return Words<u16, 16>::least_of(
            _mm256_min_epu16(_mm512_castsi512_si256(values), _mm512_extracti64x4_epi64(values, 1)));
    }
    LM_VBMI2_INLINE static void store_ids(i32* to, __m512i values) {
        _mm512_store_si512(to, _mm512_cvtepu16_epi32(_mm512_castsi512_si256(values)));
        _mm512_store_si512(to + 16, _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(values, 1)));
    }
};

template <>
struct Whole<u32> {
    LM_VBMI2_INLINE static __m512i all(u32 value) {
        return _mm512_set1_epi32(static_cast<int>(value));
    }
    LM_VBMI2_INLINE static __m512i set(__m512i values, u64 at, __m128i value) {
        return _mm512_mask_broadcastd_epi32(values, static_cast<__mmask16>(at), value);
    }
    LM_VBMI2_INLINE static __m512i shift(__m512i values, u64 which, __m512i following) {
        return _mm512_mask_alignr_epi32(values, static_cast<__mmask16>(which), following, values,
                                        1);
    }
    LM_VBMI2_INLINE static u64 equal(__m512i values, __m128i value) {
        return _mm512_cmpeq_epi32_mask(values, _mm512_broadcastd_epi32(value));
    }
    LM_VBMI2_INLINE static __m512i least(__m512i a, __m512i b) { return _mm512_min_epu32(a, b); }
    LM_VBMI2_INLINE static __m128i least_of(__m512i values) {
        const __m256i eight =
            _mm256_min_epu32(_mm512_castsi512_si256(values), _mm512_extracti64x4_epi64(values, 1));
        const __m128i four =
            _mm_min_epu32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
        const __m128i two = _mm_min_epu32(four, _mm_srli_si128(four, 8));
        return _mm_min_epu32(two, _mm_srli_si128(two, 4));
    }
    LM_VBMI2_INLINE static void store_ids(i32* to, __m512i values) {
        _mm512_store_si512(to, values);
    }
};

// The operations of Words for widths that need several registers.
template <typename Number, size_t width>
struct Words {
    using W = Whole<Number>;
    static constexpr size_t each = 64 / sizeof(Number), n = width / each;
    struct Register {
        __m512i parts[n];
    };
    LM_VBMI2_INLINE static Register load(const Number* from) {
        Register values;
        for (size_t i = 0; i < n; ++i) values.parts[i] = _mm512_load_si512(from + i * each);
        return values;
    }
    LM_VBMI2_INLINE static void store(Number* to, Register values) {
        for (size_t i = 0; i < n; ++i) _mm512_store_si512(to + i * each, values.parts[i]);
    }
    LM_VBMI2_INLINE static void store_ids(i32* to, Register values) {
        for (size_t i = 0; i < n; ++i) W::store_ids(to + i * each, values.parts[i]);
    }
    LM_VBMI2_INLINE static Register set(Register values, u64 at, __m128i value) {
        for (size_t i = 0; i < n; ++i)
            values.parts[i] = W::set(values.parts[i], at >> (i * each), value);
        return values;
    }
    LM_VBMI2_INLINE static Register remove(Register values, u64 which, u32 last) {
        const u64 moved = 0 - which;  // the bit `which` and all higher ones
        for (size_t i = 0; i < n; ++i) {
            const __m512i following = i + 1 < n ? values.parts[i + 1] : W::all(last);
            values.parts[i] = W::shift(values.parts[i], moved >> (i * each), following);
        }
        return values;
    }
    LM_VBMI2_INLINE static u64 equal(Register values, __m128i value) {
        u64 which = 0;
        for (size_t i = 0; i < n; ++i) which |= W::equal(values.parts[i], value) << (i * each);
        return which;
    }
    LM_VBMI2_INLINE static __m128i least_of(Register values) {
        __m512i least = values.parts[0];
        for (size_t i = 1; i < n; ++i) least = W::least(least, values.parts[i]);
        return W::least_of(least);
    }
};

}  // namespace lm::text

#endif
