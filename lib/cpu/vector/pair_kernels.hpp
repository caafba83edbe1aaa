// SPDX-License-Identifier: Apache-2.0
// Inner loops of attention on bf16 operands with fp32 sums, for processors that multiply pairs of
// bf16 numbers (VDPBF16PS: c += a0 b0 + a1 b1; denormals count as zero).
//
// A pair is a u32 that holds two bf16 elements that are adjacent along k, the dimension over which
// a product sums; the first element is in the low half. Rows of pairs are padded with zeros where
// a comment states it, because 0 times an unset element could be NaN.
#pragma once

#include "base/types.hpp"

namespace lm::cpu {

// The number of keys in a block of attention, and of queries in a strip.
constexpr i64 pair_block = 64;
constexpr i64 pair_strip = 16;

// c [m, n] = (accumulate ? c : 0) + a b, n a multiple of 16. The pair (i, k) of a is at a[i * a_row
// + k * a_col], the pair (k, j) of b at b[k * ldb + j].
struct PairProduct {
    i64 m, n, n_pairs;
    const u32* a;
    i64 a_row, a_col;
    const u32* b;
    i64 ldb;
    float* c;
    i64 ldc;
    bool accumulate;
};

// The scores of up to 16 queries and the first n keys of a block.
struct ScoreStrip {
    i64 rows;       // queries
    i64 n;          // keys, a multiple of 16 up to pair_block
    float* scores;  // [16, pair_block]: q k^T
    i32 begin[16];  // a query sees the keys [begin, end) of the block
    i32 end[16];
    float scale;           // factor of the scores
    float slope;           // ALiBi
    float distance;        // first key - first query
    const float* factors;  // [16, pair_block]: dropout factors; nullptr: all are 1
};

struct PairKernels {
    // Writes y(i, j) = the pair (x(2i, j), x(2i + 1, j)): y [ceil(rows / 2), round_up(cols, 16)],
    // contiguous, with zeros beyond rows and cols. Rows of x start ldx elements apart.
    void (*pack_rows)(i64 rows, i64 cols, const u16* x, i64 ldx, u32* y);
    // Writes y(j, i) = the pair (x(i, 2j), x(i, 2j + 1)): y [ceil(cols / 2), pair_block], with
    // zeros beyond cols, and beyond rows up to a multiple of 16 rows.
    void (*pack_transposed)(i64 rows, i64 cols, const u16* x, i64 ldx, u32* y);
    // Writes y(i, j) = the pair (x(i, 2j), x(i, 2j + 1)): y [rows, ceil(cols / 2)], contiguous,
    // with a zero beyond odd cols.
    void (*copy_rows)(i64 rows, i64 cols, const u16* x, i64 ldx, u32* y);
    // Writes y(i, j) = factors[i * step] * x(i, j), rounded to bf16. Rows start ldx and ldy
    // elements apart.
    void (*store_rows)(i64 rows, i64 cols, const float* x, i64 ldx, const float* factors, i64 step,
                       u16* y, i64 ldy);
    // Sets y[i] to the dot product of row i of a and row i of b. Rows start ld elements apart.
    void (*row_dots)(i64 rows, i64 cols, const u16* a, const u16* b, i64 ld, float* y);
    void (*product)(const PairProduct& product);
    // Processes a strip of an online softmax, with score = scale * scores + slope * (key - query).
    // Writes to weights [16, pair_block / 2] exp(score - max') * factors, rounded to bf16, in pairs
    // along the keys, where max' is the maximum of max[i] and the visible scores of the row.
    // Updates max [16] and sum [16], the sum of the unrounded exp(score - max'), and sets
    // rescale [16] to the factors of the caller's sums over earlier blocks. A block without visible
    // keys has weights 0 and changes neither max nor sum. Overwrites the scores.
    void (*softmax)(const ScoreStrip& strip, u32* weights, float* max, float* sum, float* rescale);
    // With p = exp(score - lse), writes weights = p * factors and gradient = p * (dp * factors -
    // delta), rounded to bf16: both in pairs along the queries, [8, pair_block] with zeros beyond
    // an odd number of rows, and the gradient also in pairs along the keys, [rows, pair_block / 2].
    // dp: [16, pair_block]; lse and delta: [rows].
    void (*softmax_backward)(const ScoreStrip& strip, const float* dp, const float* lse,
                             const float* delta, u32* weights, u32* gradient, u32* gradient_rows);
};

// Returns the kernels, or nullptr when this processor has no such instructions or LM_PROCESSOR
// excludes them.
const PairKernels* pair_kernels();

#if defined(__x86_64__)
extern const PairKernels avx512_pair_kernels;
// PairKernels::product in AMX tiles.
void amx_pair_product(const PairProduct& product);
#endif

}  // namespace lm::cpu
