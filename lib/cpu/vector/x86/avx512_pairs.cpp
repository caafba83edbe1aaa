// SPDX-License-Identifier: Apache-2.0
// The loops of pair_kernels.hpp for AVX-512 with BF16. Only the code between the pragmas is
// compiled for these instructions, because inline functions of other headers must not contain
// instructions that an older processor does not have.
#include "cpu/vector/pair_kernels.hpp"
#include "cpu/vector/vector_kernels.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#define LM_VECTOR_AVX512
#if defined(__clang__)
#pragma clang attribute push(                                                     \
    __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx512bf16,fma"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,avx512bf16,fma")
#endif
#include "cpu/vector/all_loops.hpp"

namespace lm::cpu {
namespace {
namespace pairs {

// ---- packing -----------------------------------------------------------------------------------

// Returns a bit mask with a bit for each of the positions at, at + 1, ..., at + lanes - 1: 1 for a
// position in [begin, end).
template <int lanes>
LM_INLINE u32 lanes_in(i64 begin, i64 end, i64 at) {
    const i64 low = begin < at ? 0 : begin - at < lanes ? begin - at : lanes;
    const i64 high = end < at ? 0 : end - at < lanes ? end - at : lanes;
    return low < high ? static_cast<u32>((u64{1} << high) - (u64{1} << low)) : 0;
}

// Loads up to 32 elements from x[at] on of a row of n elements, and zeros beyond its end.
LM_INLINE __m512i load_elements(const u16* x, i64 at, i64 n) {
    return _mm512_maskz_loadu_epi16(lanes_in<32>(0, n, at), x + at);
}

// Returns the pairs (low[i], high[i]).
LM_INLINE __m512i interleave(__m256i low, __m256i high) {
    // g++ 12 warns of uninitialized variables in the intrinsics without a mask.
    const BitsVec wide_low = (BitsVec)_mm512_maskz_cvtepu16_epi32(0xffff, low);
    const BitsVec wide_high = (BitsVec)_mm512_maskz_cvtepu16_epi32(0xffff, high);
    return (__m512i)(wide_low | wide_high << 16);
}

void pack_rows(i64 rows, i64 cols, const u16* x, i64 ldx, u32* y) {
    for (i64 i = 0; i < rows; i += 2) {
        for (i64 j = 0; j < cols; j += width, y += width) {
            const auto lanes = static_cast<__mmask16>(lanes_in<width>(0, cols, j));
            const u16* const row = x + i * ldx + j;
            const __m256i low = _mm256_maskz_loadu_epi16(lanes, row);
            const bool pair = i + 1 < rows;
            const __m256i high = _mm256_maskz_loadu_epi16(pair ? lanes : 0, pair ? row + ldx : row);
            _mm512_storeu_si512(y, interleave(low, high));
        }
    }
}

void pack_transposed(i64 rows, i64 cols, const u16* x, i64 ldx, u32* y) {
    const i64 n_pairs = (cols + 1) / 2;
    for (i64 i = 0; i < rows; i += width) {
        for (i64 j = 0; j < n_pairs; j += width) {
            Vec v[width];
#pragma GCC unroll 16
            for (int r = 0; r < width; ++r) {
                v[r] = i + r < rows ? (Vec)load_elements(x + (i + r) * ldx, 2 * j, cols) : Vec{};
            }
            transpose_square(v);
            const i64 n = n_pairs - j < width ? n_pairs - j : i64{width};
#pragma GCC unroll 16
            for (int r = 0; r < width; ++r) {
                if (r < n) _mm512_storeu_si512(y + (j + r) * pair_block + i, (__m512i)v[r]);
            }
        }
    }
}

void copy_rows(i64 rows, i64 cols, const u16* x, i64 ldx, u32* y) {
    const i64 n_pairs = (cols + 1) / 2;
    for (i64 i = 0; i < rows; ++i, x += ldx, y += n_pairs) {
        for (i64 j = 0; j < n_pairs; j += width) {
            const auto lanes = static_cast<__mmask16>(lanes_in<width>(0, n_pairs, j));
            _mm512_mask_storeu_epi32(y + j, lanes, load_elements(x, 2 * j, cols));
        }
    }
}

LM_INLINE __m256i narrow_bf16(Vec x) {
    return (__m256i)_mm512_cvtneps_pbh((__m512)x);
}

void store_rows(i64 rows, i64 cols, const float* x, i64 ldx, const float* factors, i64 step, u16* y,
                i64 ldy) {
    for (i64 i = 0; i < rows; ++i) {
        const float factor = factors[i * step];
        for (i64 j = 0; j < cols; j += width) {
            const auto lanes = static_cast<__mmask16>(lanes_in<width>(0, cols, j));
            const Vec row = (Vec)_mm512_maskz_loadu_ps(lanes, x + i * ldx + j);
            _mm256_mask_storeu_epi16(y + i * ldy + j, lanes, narrow_bf16(row * factor));
        }
    }
}

template <int d, int... lane>
LM_INLINE Vec exchanged(Vec v, Lanes<lane...>) {
    return __builtin_shufflevector(v, v, (lane ^ d)...);
}
LM_INLINE float largest(Vec v) {
    v = larger(v, exchanged<8>(v, AllLanes{}));
    v = larger(v, exchanged<4>(v, AllLanes{}));
    v = larger(v, exchanged<2>(v, AllLanes{}));
    return larger(v, exchanged<1>(v, AllLanes{}))[0];
}
LM_INLINE float total_of(Vec v) {
    v += exchanged<8>(v, AllLanes{});
    v += exchanged<4>(v, AllLanes{});
    v += exchanged<2>(v, AllLanes{});
    return (v + exchanged<1>(v, AllLanes{}))[0];
}

void row_dots(i64 rows, i64 cols, const u16* a, const u16* b, i64 ld, float* y) {
    for (i64 i = 0; i < rows; ++i, a += ld, b += ld) {
        __m512 sum = _mm512_setzero_ps();
        for (i64 j = 0; j < cols; j += 2 * width) {
            sum = _mm512_dpbf16_ps(sum, (__m512bh)load_elements(a, j, cols),
                                   (__m512bh)load_elements(b, j, cols));
        }
        y[i] = total_of((Vec)sum);
    }
}

// ---- products ----------------------------------------------------------------------------------

// Computes `rows` rows of `vectors` vectors of c. The sums stay in registers.
template <int rows, int vectors>
LM_INLINE void pair_tile(const PairProduct& p, i64 i, i64 j) {
    const u32* const a = p.a + i * p.a_row;
    const u32* const b = p.b + j;
    float* const c = p.c + i * p.ldc + j;
    __m512 sum[rows][vectors];
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 8
        for (int s = 0; s < vectors; ++s) {
            sum[r][s] =
                p.accumulate ? _mm512_loadu_ps(c + r * p.ldc + s * width) : _mm512_setzero_ps();
        }
    }
    for (i64 k = 0; k < p.n_pairs; ++k) {
        __m512i right[vectors];
#pragma GCC unroll 8
        for (int s = 0; s < vectors; ++s) right[s] = _mm512_loadu_si512(b + k * p.ldb + s * width);
#pragma GCC unroll 8
        for (int r = 0; r < rows; ++r) {
            const u32 pair = a[r * p.a_row + k * p.a_col];
            const __m512i left = _mm512_set1_epi32(static_cast<int>(pair));
#pragma GCC unroll 8
            for (int s = 0; s < vectors; ++s) {
                sum[r][s] = _mm512_dpbf16_ps(sum[r][s], (__m512bh)left, (__m512bh)right[s]);
            }
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 8
        for (int s = 0; s < vectors; ++s) _mm512_storeu_ps(c + r * p.ldc + s * width, sum[r][s]);
    }
}

template <int vectors>
void pair_panel(const PairProduct& p, i64 j) {
    i64 i = 0;
    for (; i + 6 <= p.m; i += 6) pair_tile<6, vectors>(p, i, j);
    if (i + 4 <= p.m) pair_tile<4, vectors>(p, i, j), i += 4;
    if (i + 2 <= p.m) pair_tile<2, vectors>(p, i, j), i += 2;
    if (i < p.m) pair_tile<1, vectors>(p, i, j);
}

void product(const PairProduct& p) {
    i64 j = 0;
    for (; j + 4 * width <= p.n; j += 4 * width) pair_panel<4>(p, j);
    switch ((p.n - j) / width) {
        case 3:
            return pair_panel<3>(p, j);
        case 2:
            return pair_panel<2>(p, j);
        case 1:
            return pair_panel<1>(p, j);
        default:
            return;
    }
}

// ---- softmax -----------------------------------------------------------------------------------

// Returns elements (row, 16 j) to (row, 16 j + 15) of the scores, with scale and ALiBi.
LM_INLINE Vec score_of(const ScoreStrip& s, i64 row, int j) {
    Vec x = load(s.scores + row * pair_block + j * width) * s.scale;
    if (s.slope != 0.0F) {
        const Vec index = iota() + (s.distance + static_cast<float>(j * width - row));
        x = fma(index, splat(s.slope), x);
    }
    return x;
}

LM_INLINE __mmask16 visible(const ScoreStrip& s, i64 row, int j) {
    return static_cast<__mmask16>(lanes_in<width>(s.begin[row], s.end[row], j * width));
}

template <int vectors>
void softmax_strip(const ScoreStrip& s, u32* weights, float* max, float* sum, float* rescale) {
    float most[pair_strip];
    for (i64 i = 0; i < pair_strip; ++i) most[i] = minus_infinity;
    for (i64 i = 0; i < s.rows; ++i) {
        __m512 row_most = (__m512)splat(minus_infinity);
#pragma GCC unroll 4
        for (int j = 0; j < vectors; ++j) {
            const __m512 x = _mm512_mask_mov_ps((__m512)splat(minus_infinity), visible(s, i, j),
                                                (__m512)score_of(s, i, j));
            _mm512_storeu_ps(s.scores + i * pair_block + j * width, x);
            row_most = (__m512)larger((Vec)row_most, (Vec)x);
        }
        most[i] = largest((Vec)row_most);
    }
    // A row without visible keys so far has the maximum -inf. Its offset is 0, because -inf -
    // (-inf) would be NaN.
    const Vec before = load(max);
    const Vec after = larger(before, load(most));
    const Vec offset = after == minus_infinity ? Vec{} : after;
    store(rescale, exponential(before - offset));
    store(max, after);
    float offsets[pair_strip];
    store(offsets, offset);
    for (i64 i = 0; i < s.rows; ++i) {
        Vec total{};
#pragma GCC unroll 4
        for (int j = 0; j < vectors; ++j) {
            const i64 at = i * pair_block + j * width;
            Vec p = exponential(load(s.scores + at) - offsets[i]);
            total += p;
            if (s.factors) p *= load(s.factors + at);
            _mm256_storeu_si256((__m256i*)(weights + at / 2), narrow_bf16(p));
        }
        sum[i] = sum[i] * rescale[i] + total_of(total);
    }
}

void softmax(const ScoreStrip& s, u32* weights, float* max, float* sum, float* rescale) {
    switch (s.n / width) {
        case 4:
            return softmax_strip<4>(s, weights, max, sum, rescale);
        case 3:
            return softmax_strip<3>(s, weights, max, sum, rescale);
        case 2:
            return softmax_strip<2>(s, weights, max, sum, rescale);
        default:
            return softmax_strip<1>(s, weights, max, sum, rescale);
    }
}

struct Gradients {
    __m256i weight, gradient;
};

LM_INLINE Gradients gradients_of(const ScoreStrip& s, i64 row, int j, const float* dp, float lse,
                                 float delta) {
    const i64 at = row * pair_block + j * width;
    const __mmask16 seen = visible(s, row, j);
    Vec weight = (Vec)_mm512_maskz_mov_ps(seen, (__m512)exponential(score_of(s, row, j) - lse));
    Vec gradient = load(dp + at);
    Vec dropped = weight;
    if (s.factors) {
        const Vec factor = load(s.factors + at);
        gradient *= factor;
        dropped *= factor;
    }
    gradient = (Vec)_mm512_maskz_mov_ps(seen, (__m512)(weight * (gradient - delta)));
    return {narrow_bf16((Vec)_mm512_maskz_mov_ps(seen, (__m512)dropped)), narrow_bf16(gradient)};
}

void softmax_backward(const ScoreStrip& s, const float* dp, const float* lse, const float* delta,
                      u32* weights, u32* gradient, u32* gradient_rows) {
    const int vectors = static_cast<int>(s.n / width);
    for (i64 i = 0; i < s.rows; i += 2) {
        const bool pair = i + 1 < s.rows;
        for (int j = 0; j < vectors; ++j) {
            const Gradients low = gradients_of(s, i, j, dp, lse[i], delta[i]);
            Gradients high{};
            if (pair) high = gradients_of(s, i + 1, j, dp, lse[i + 1], delta[i + 1]);
            const i64 at = i / 2 * pair_block + j * width;
            _mm512_storeu_si512(weights + at, interleave(low.weight, high.weight));
            _mm512_storeu_si512(gradient + at, interleave(low.gradient, high.gradient));
            u32* const row = gradient_rows + (i * pair_block + j * width) / 2;
            _mm256_storeu_si256((__m256i*)row, low.gradient);
            if (pair) _mm256_storeu_si256((__m256i*)(row + pair_block / 2), high.gradient);
        }
    }
}

}  // namespace pairs
}  // namespace
}  // namespace lm::cpu

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace lm::cpu {
const PairKernels avx512_pair_kernels = {
    pairs::pack_rows, pairs::pack_transposed, pairs::copy_rows, pairs::store_rows,
    pairs::row_dots,  pairs::product,         pairs::softmax,   pairs::softmax_backward};
}  // namespace lm::cpu
#endif
