// SPDX-License-Identifier: Apache-2.0
// Small matrix products on one thread, directly on their operands. Part of all_loops.hpp.
#pragma once

namespace lm::cpu {
namespace {

// Computes a tile of c, `rows` rows of `vectors` vectors: c = (accumulate ? c : 0) + a b, summed
// over k_end terms. The accumulators stay in registers during the whole sum. `last` is the number
// of elements of the last vector.
template <int rows, int vectors>
LM_INLINE void product_tile(i64 k_end, const float* a, i64 a_row, i64 a_col, const float* b,
                            i64 ldb, float* c, i64 ldc, bool accumulate, i64 last) {
    Vec sum[rows][vectors];
    const auto lanes = [last](int j) { return j == vectors - 1 ? last : i64{width}; };
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 8
        for (int j = 0; j < vectors; ++j) {
            sum[i][j] = accumulate ? get(c + i * ldc + j * width, lanes(j)) : Vec{};
        }
    }
    for (i64 k = 0; k < k_end; ++k) {
        Vec right[vectors];
#pragma GCC unroll 8
        for (int j = 0; j < vectors; ++j) right[j] = get(b + k * ldb + j * width, lanes(j));
#pragma GCC unroll 8
        for (int i = 0; i < rows; ++i) {
            const Vec left = splat(a[i * a_row + k * a_col]);
#pragma GCC unroll 8
            for (int j = 0; j < vectors; ++j) sum[i][j] = fma(left, right[j], sum[i][j]);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 8
        for (int j = 0; j < vectors; ++j) put(c + i * ldc + j * width, sum[i][j], lanes(j));
    }
}

// Computes all rows of one panel of columns. If `whole` is false, the last vector of a row has only
// `last` elements.
template <int vectors, bool whole>
void product_panel(i64 m, i64 k, const float* a, i64 a_row, i64 a_col, const float* b, i64 ldb,
                   float* c, i64 ldc, bool accumulate, i64 last) {
    const i64 lanes = whole ? i64{width} : last;
    i64 i = 0;
    for (; i + tile_rows <= m; i += tile_rows) {
        product_tile<tile_rows, vectors>(k, a + i * a_row, a_row, a_col, b, ldb, c + i * ldc, ldc,
                                         accumulate, lanes);
    }
    for (; i + 2 <= m; i += 2) {
        product_tile<2, vectors>(k, a + i * a_row, a_row, a_col, b, ldb, c + i * ldc, ldc,
                                 accumulate, lanes);
    }
    if (i < m) {
        product_tile<1, vectors>(k, a + i * a_row, a_row, a_col, b, ldb, c + i * ldc, ldc,
                                 accumulate, lanes);
    }
}

void small_product(i64 m, i64 n, i64 k, const float* a, i64 a_row, i64 a_col, const float* b,
                   i64 ldb, float* c, i64 ldc, bool accumulate) {
    i64 j = 0;
    for (; j + tile_vectors * width <= n; j += tile_vectors * width) {
        product_panel<tile_vectors, true>(m, k, a, a_row, a_col, b + j, ldb, c + j, ldc, accumulate,
                                          width);
    }
    for (; j + width <= n; j += width) {
        product_panel<1, true>(m, k, a, a_row, a_col, b + j, ldb, c + j, ldc, accumulate, width);
    }
    if (j < n) {
        product_panel<1, false>(m, k, a, a_row, a_col, b + j, ldb, c + j, ldc, accumulate, n - j);
    }
}

}  // namespace
}  // namespace lm::cpu
