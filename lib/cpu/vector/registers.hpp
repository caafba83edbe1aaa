// SPDX-License-Identifier: Apache-2.0
// The vector types of one instruction set, `width` floats wide, and their loads and stores. Part of
// all_loops.hpp.
#pragma once

namespace lm::cpu {
namespace {

#if defined(LM_VECTOR_AVX512)
constexpr int width = 16;
constexpr int tile_vectors = 4;
#elif defined(LM_VECTOR_AVX2)
constexpr int width = 8;
constexpr int tile_vectors = 2;
#else
constexpr int width = 4;
constexpr int tile_vectors = 2;
#endif
// Rows of c that a product keeps in registers. The product needs 6 * tile_vectors registers for c,
// tile_vectors for b and 1 for a: 15 of 16 with AVX2, 29 of 32 with AVX-512 (tile_vectors = 4).
constexpr int tile_rows = 6;
#if defined(LM_VECTOR_BF16)
constexpr bool pairs_bf16 = true;
#else
constexpr bool pairs_bf16 = false;
#endif

typedef float Vec __attribute__((vector_size(width * 4)));
typedef i32 IntVec __attribute__((vector_size(width * 4)));
typedef u32 BitsVec __attribute__((vector_size(width * 4)));
typedef u16 ShortVec __attribute__((vector_size(width * 2)));
typedef u64 WordVec __attribute__((vector_size(width * 4)));
typedef double DoubleVec __attribute__((vector_size(width * 8)));
typedef float HalfVec __attribute__((vector_size(width * 2)));
typedef double HalfDoubleVec __attribute__((vector_size(width * 4)));

#define LM_INLINE inline __attribute__((always_inline))
#define LM_BODY __attribute__((always_inline))

#if defined(LM_VECTOR_AVX512)
LM_INLINE Vec fma(Vec a, Vec b, Vec c) {
    return (Vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}
LM_INLINE Vec square_root(Vec x) {
    return (Vec)_mm512_maskz_sqrt_ps(0xffff, (__m512)x);
}
LM_INLINE WordVec multiply_words(WordVec a, WordVec b) {  // 64-bit products of low 32-bit halves
    return (WordVec)_mm512_maskz_mul_epu32(0xff, (__m512i)a, (__m512i)b);
}
#elif defined(LM_VECTOR_AVX2)
LM_INLINE Vec fma(Vec a, Vec b, Vec c) {
    return (Vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
LM_INLINE Vec square_root(Vec x) {
    return (Vec)_mm256_sqrt_ps((__m256)x);
}
LM_INLINE WordVec multiply_words(WordVec a, WordVec b) {
    return (WordVec)_mm256_mul_epu32((__m256i)a, (__m256i)b);
}
#else
LM_INLINE Vec fma(Vec a, Vec b, Vec c) {
    return a * b + c;
}
LM_INLINE Vec square_root(Vec x) {
    for (int i = 0; i < width; ++i) x[i] = __builtin_sqrtf(x[i]);
    return x;
}
LM_INLINE WordVec multiply_words(WordVec a, WordVec b) {
    return (a & 0xffffffffU) * (b & 0xffffffffU);
}
#endif

template <int... lane>
struct Lanes {};
template <int n>
constexpr auto lanes_of() {
    if constexpr (n == 16) {
        return Lanes<0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15>{};
    } else if constexpr (n == 8) {
        return Lanes<0, 1, 2, 3, 4, 5, 6, 7>{};
    } else {
        return Lanes<0, 1, 2, 3>{};
    }
}
using AllLanes = decltype(lanes_of<width>());

LM_INLINE Vec splat(float x) {
    return x - Vec{};
}
LM_INLINE WordVec word(u64 x) {
    return x - WordVec{};
}
LM_INLINE Vec load(const float* p) {
    Vec v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}
LM_INLINE void store(float* p, Vec v) {
    __builtin_memcpy(p, &v, sizeof v);
}
#if defined(LM_VECTOR_AVX512)
LM_INLINE __mmask16 first_lanes(i64 n) {
    return (__mmask16)((1U << n) - 1U);
}
LM_INLINE Vec load_part(const float* p, i64 n, float rest = 0.0F) {
    return (Vec)_mm512_mask_loadu_ps((__m512)splat(rest), first_lanes(n), p);
}
LM_INLINE void store_part(float* p, Vec v, i64 n) {
    _mm512_mask_storeu_ps(p, first_lanes(n), (__m512)v);
}
#else
LM_INLINE Vec load_part(const float* p, i64 n, float rest = 0.0F) {
    Vec v = splat(rest);
    for (i64 i = 0; i < n; ++i) v[i] = p[i];
    return v;
}
LM_INLINE void store_part(float* p, Vec v, i64 n) {
    for (i64 i = 0; i < n; ++i) p[i] = v[i];
}
#endif

LM_INLINE Vec larger(Vec a, Vec b) {  // returns NaN if b is NaN
    return a > b ? a : b;
}
LM_INLINE float horizontal_max(Vec v) {
    float most = v[0];
    for (int i = 1; i < width; ++i) most = v[i] < most ? most : v[i];
    return most;
}
LM_INLINE float horizontal_sum(Vec v) {
    float part[width];
    __builtin_memcpy(part, &v, sizeof v);
    for (int stride = width / 2; stride > 0; stride /= 2) {
        for (int i = 0; i < stride; ++i) part[i] += part[i + stride];
    }
    return part[0];
}
LM_INLINE double horizontal_sum(HalfDoubleVec v) {
    double part[width / 2];
    __builtin_memcpy(part, &v, sizeof v);
    for (int stride = width / 4; stride > 0; stride /= 2) {
        for (int i = 0; i < stride; ++i) part[i] += part[i + stride];
    }
    return part[0];
}
LM_INLINE HalfDoubleVec load_double(const float* p) {
    HalfVec v;
    __builtin_memcpy(&v, p, sizeof v);
    return __builtin_convertvector(v, HalfDoubleVec);
}

// Calls body(offset, n) for each full vector, with a compile-time constant n, and once for the
// rest.
template <typename Body>
LM_INLINE void for_vectors(i64 n, Body&& body) {
    i64 i = 0;
    for (; i + width <= n; i += width) body(i, i64{width});
    if (i < n) body(i, n - i);
}
LM_INLINE Vec get(const float* p, i64 n, float rest = 0.0F) {
    return n == width ? load(p) : load_part(p, n, rest);
}
LM_INLINE void put(float* p, Vec v, i64 n) {
    if (n == width) {
        store(p, v);
    } else {
        store_part(p, v, n);
    }
}

}  // namespace
}  // namespace lm::cpu
