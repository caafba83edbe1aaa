// SPDX-License-Identifier: Apache-2.0
// 16-bit storage: loads that widen to fp32, stores that round. Part of all_loops.hpp.
#pragma once

namespace lm::cpu {
namespace {

// The intrinsic is a single instruction. g++ 12 would compile __builtin_convertvector() to several
// instructions.
LM_INLINE Vec widen(ShortVec bits, Bf16) {
#if defined(LM_VECTOR_AVX512)
    return (Vec)((BitsVec)_mm512_maskz_cvtepu16_epi32(0xffff, (__m256i)bits) << 16);
#elif defined(LM_VECTOR_AVX2)
    return (Vec)((BitsVec)_mm256_cvtepu16_epi32((__m128i)bits) << 16);
#else
    return (Vec)(__builtin_convertvector(bits, BitsVec) << 16);
#endif
}
// Rounds to nearest even, like bf16_from_fp32() in base/dtype.cpp. NaN becomes a quiet NaN.
LM_INLINE ShortVec narrow(Vec x, Bf16) {
    const BitsVec bits = (BitsVec)x;
    const BitsVec rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
    const BitsVec quiet = (bits >> 16) | 0x40U;
    const BitsVec chosen = x == x ? rounded : quiet;
    return __builtin_convertvector(chosen, ShortVec);
}
#if defined(LM_VECTOR_AVX512)
LM_INLINE Vec widen(ShortVec bits, Fp16) {
    return (Vec)_mm512_maskz_cvtph_ps(0xffff, (__m256i)bits);
}
LM_INLINE ShortVec narrow(Vec x, Fp16) {
    return (ShortVec)_mm512_maskz_cvtps_ph(0xffff, (__m512)x, _MM_FROUND_TO_NEAREST_INT);
}
#elif defined(LM_VECTOR_AVX2)
LM_INLINE Vec widen(ShortVec bits, Fp16) {
    return (Vec)_mm256_cvtph_ps((__m128i)bits);
}
LM_INLINE ShortVec narrow(Vec x, Fp16) {
    return (ShortVec)_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT);
}
#else
LM_INLINE Vec widen(ShortVec bits, Fp16) {
    Vec x;
    for (int i = 0; i < width; ++i) x[i] = fp32_from_fp16(bits[i]);
    return x;
}
LM_INLINE ShortVec narrow(Vec x, Fp16) {
    ShortVec bits;
    for (int i = 0; i < width; ++i) bits[i] = fp16_from_fp32(x[i]);
    return bits;
}
#endif

template <typename Half>
LM_INLINE Vec load(const Half* p) {
    ShortVec bits;
    __builtin_memcpy(&bits, p, sizeof bits);
    return widen(bits, Half{});
}
template <typename Half>
LM_INLINE Vec load_part(const Half* p, i64 n) {
#if defined(LM_VECTOR_AVX512)
    return widen((ShortVec)_mm256_maskz_loadu_epi16(first_lanes(n), p), Half{});
#else
    u16 bits[width] = {};
    __builtin_memcpy(bits, p, static_cast<size_t>(n) * sizeof(Half));
    return load(reinterpret_cast<const Half*>(bits));
#endif
}
// Returns one element of any storage type as fp32.
LM_INLINE float value(const float* p) {
    return *p;
}
template <typename Half>
LM_INLINE float value(const Half* p) {
    return load_part(p, 1)[0];
}
// Copies n elements of any storage type to fp32; n is a compile-time constant when inlined.
template <typename T>
LM_INLINE void copy_floats(float* y, const T* x, i64 n) {
    i64 i = 0;
    for (; i + width <= n; i += width) store(y + i, load(x + i));
    if (i < n) store_part(y + i, load_part(x + i, n - i), n - i);
}

template <typename Half>
void widen_row(float* y, const Half* x, i64 n) {
    copy_floats(y, x, n);
}

template <typename Half>
void narrow_row(Half* y, const float* x, i64 n) {
    for_vectors(n, [&](i64 i, i64 lanes) LM_BODY {
        const ShortVec bits = narrow(get(x + i, lanes), Half{});
        __builtin_memcpy(y + i, &bits, static_cast<size_t>(lanes) * sizeof(Half));
    });
}

}  // namespace
}  // namespace lm::cpu
