// SPDX-License-Identifier: Apache-2.0
// Scratch memory of the CUDA backend's operations: what they take from the workspace, and what the
// plan of cost/workspace.hpp sets aside. Every piece begins at a multiple of cuda_alignment.
#pragma once

#include "base/types.hpp"

namespace lm::cost {

constexpr i64 cuda_alignment = 256;
// Most partial sums of a reduction of a flat range.
constexpr i64 cuda_sum_blocks = 1024;
// Row numbers that one block sorts.
constexpr i64 cuda_sort_tile = 2048;
// Sorted rows that one block of the embedding's gradient adds up.
constexpr i64 cuda_embedding_chunk = 64;

constexpr i64 cuda_piece(i64 bytes) {
    return round_up(bytes, cuda_alignment);
}

// A sort of n row numbers: they and where they came from, twice; 256 counts a tile and in all.
constexpr i64 cuda_sort_bytes(i64 n) {
    constexpr i64 counts = 4 * 256;
    return 4 * cuda_piece(4 * n) + cuda_piece(counts * ceil_div(n, cuda_sort_tile)) +
           cuda_piece(counts);
}
// The gradient of an embedding of `width` columns: the sort, and two partial sums a chunk.
constexpr i64 cuda_embedding_bytes(i64 n, i64 width) {
    return cuda_sort_bytes(n) + 2 * cuda_piece(4 * ceil_div(n, cuda_embedding_chunk) * width);
}

// What cuBLASLt may use for one product: its documentation's recommendation for Hopper. Which
// algorithms there are depends on it, so it is the same for every model.
constexpr i64 cuda_product_bytes = i64{32} << 20;

// Sums over rows: blocks of at least 32 rows, at most 128 blocks.
constexpr i64 column_sum_rows(i64 rows) {
    const i64 even = ceil_div(rows, 128);
    return even < 32 ? 32 : even;
}
constexpr i64 column_sum_parts(i64 rows) {
    return ceil_div(rows, column_sum_rows(rows));
}
constexpr i64 column_sum_floats(i64 rows, i64 columns) {
    return column_sum_parts(rows) * columns;
}

// Norm gradients: partial sums of weight and bias, side by side, of at most this many blocks: three
// for each of the 132 multiprocessors of an H100 or H200, which is what their registers hold.
constexpr i64 norm_gradient_parts = 396;
constexpr i64 norm_gradient_floats(i64 columns) {
    return norm_gradient_parts * 2 * columns;
}

// The widest head that attention's kernels hold.
constexpr i64 cuda_widest_head = 256;
// Floats of attention's backward: rowsum(dout * out) of every query of every head.
constexpr i64 cuda_attention_floats(i64 micro_batch, i64 n_heads, i64 seq_length) {
    return micro_batch * n_heads * seq_length;
}

}  // namespace lm::cost
