// SPDX-License-Identifier: Apache-2.0
// Scratch memory of the CUDA backend's operations. The kernels in lib/cuda and the workspace size
// in cost/workspace.cpp both use these values. Every allocation starts at a multiple of
// cuda_alignment.
#pragma once

#include "base/types.hpp"

namespace lm::cost {

constexpr i64 cuda_alignment = 256;
// The largest number of partial sums of a reduction over a flat range.
constexpr i64 cuda_sum_blocks = 1024;
// The number of rows that one thread block sums for the embedding's gradient.
constexpr i64 cuda_embedding_chunk = 64;

constexpr i64 cuda_piece(i64 bytes) {
    return round_up(bytes, cuda_alignment);
}

// Returns the scratch bytes that the backward of an embedding of `width` columns needs: two partial
// sums for each chunk.
constexpr i64 cuda_embedding_bytes(i64 n, i64 width) {
    return 2 * cuda_piece(4 * ceil_div(n, cuda_embedding_chunk) * width);
}

// The bytes of cuBLASLt's workspace for one matrix product: the size that the cuBLASLt
// documentation recommends for Hopper. The choice of algorithms depends on this size, so it is the
// same for every model.
constexpr i64 cuda_product_bytes = i64{32} << 20;

// Returns the rows of each partial sum over rows: at most 128 thread blocks sum at least 32 rows
// each.
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

// The largest number of thread blocks of a norm gradient. Each block has a partial sum of the
// weight's gradient, one of the bias's gradient, and one of the branch's gradient. The registers of
// an SM hold three blocks, and an H100 or H200 has 132 SMs.
constexpr i64 norm_gradient_parts = 396;
constexpr i64 norm_gradient_floats(i64 columns) {
    return norm_gradient_parts * 3 * columns;
}

// Returns the tokens of each thread block of a head norm's gradient: at least 8, and enough for at
// most norm_gradient_parts blocks. Each block has the partial sums of four parameters of `width`
// elements.
constexpr i64 head_norm_tokens(i64 tokens) {
    const i64 even = ceil_div(tokens, norm_gradient_parts);
    return even < 8 ? 8 : even;
}
constexpr i64 head_norm_parts(i64 tokens) {
    return ceil_div(tokens, head_norm_tokens(tokens));
}
constexpr i64 head_norm_floats(i64 tokens, i64 width) {
    return head_norm_parts(tokens) * 4 * width;
}

// The largest head size of the attention kernels.
constexpr i64 cuda_widest_head = 256;
// Returns the floats of the attention backward: rowsum(dout * out) for every query of every head.
constexpr i64 cuda_attention_floats(i64 micro_batch, i64 n_heads, i64 seq_length) {
    return micro_batch * n_heads * seq_length;
}

}  // namespace lm::cost
