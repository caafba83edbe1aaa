// SPDX-License-Identifier: Apache-2.0
// Scratch memory of the CPU backend's operations. The kernels in lib/cpu and the workspace size in
// cost/workspace.cpp both use these values.
#pragma once

#include "base/types.hpp"

namespace lm::cost {

// The rows of one partial sum of a column reduction.
constexpr i64 reduction_rows = 64;
// The largest number of partial sums of a reduction over a flat range.
constexpr i64 max_flat_pieces = 4096;
// The rows of scratch that one worker uses in residual addition and norm.
constexpr i64 norm_scratch_rows = 5;
// The number of queries, and of keys, in a block of attention.
constexpr i64 attention_block = 64;
// Sizes of the bf16 attention (cpu/attention_bf16.cpp): the number of queries whose scores one call
// computes, and the number of queries of one task of the forward pass.
constexpr i64 attention_strip = 16;
constexpr i64 attention_task_queries = 256;

// The largest tile of the result of a matrix product.
constexpr i64 product_tile_rows = 288;
constexpr i64 product_tile_cols = 512;
constexpr i64 product_tile_floats = product_tile_rows * product_tile_cols;
// The number of 32-bit words along k in a chunk. A chunk is the part of a product whose operands
// are packed at the same time.
constexpr i64 product_chunk_words = 768;
// The bytes of oneDNN's scratchpad for one worker.
constexpr i64 library_scratch_bytes = i64{4} << 20;
// The floats that one worker needs for one of oneDNN's tiles.
constexpr i64 library_product_floats = library_scratch_bytes / 4 + product_tile_floats;

// The number of rows and columns of tiles in one chunk of a product that has all_rows x all_cols
// tiles. A chunk has about four tiles for each thread. The threads pack the operands once per
// chunk, so each packed element is used in up to 1,152 multiplications of each thread.
struct ProductChunk {
    constexpr ProductChunk(i64 n_threads, i64 all_rows, i64 all_cols) {
        const i64 tiles = 4 * (n_threads + 1);
        const i64 few_rows = all_rows < 4 ? all_rows : 4;
        const i64 most_cols = tiles / (few_rows < 2 ? 2 : few_rows);
        cols = all_cols < most_cols ? all_cols : most_cols;
        rows = all_rows < tiles / cols ? all_rows : tiles / cols;
    }
    i64 rows = 0, cols = 0;
};

// Returns the floats of scratch for a product: the packed operands of a chunk, and its fp32 tiles
// before they are rounded to 16 bits. The packed operands are largest when the chunk is one column
// of tiles.
constexpr i64 product_floats(i64 n_threads) {
    const i64 tiles = 4 * (n_threads + 1);
    return product_chunk_words * (tiles * product_tile_rows + product_tile_cols) +
           tiles * product_tile_floats;
}

// Returns the floats of scratch that one worker uses in the forward and backward of attention.
constexpr i64 attention_forward_floats(i64 head_dim) {
    constexpr i64 block = attention_block;
    return round_up(4 * block * head_dim + block * block + 3 * block, 16);
}
constexpr i64 attention_backward_floats(i64 seq_length, i64 head_dim) {
    constexpr i64 block = attention_block;
    return round_up(
        5 * seq_length * head_dim + seq_length + 3 * block * head_dim + 2 * block * block + block,
        16);
}
// Returns the floats of scratch that one worker uses in the forward and backward of the bf16
// attention (cpu/attention_bf16.cpp).
constexpr i64 attention_forward_bf16_floats(i64 seq_length, i64 head_dim) {
    constexpr i64 block = attention_block;
    const i64 queries = seq_length < attention_task_queries ? seq_length : attention_task_queries;
    const i64 pairs = (head_dim + 1) / 2;
    const i64 columns = round_up(head_dim, 16);
    return round_up(queries * pairs, 16) + block * pairs + block / 2 * columns + queries * columns +
           5 * attention_strip * block / 2 + 2 * round_up(queries, 16) + attention_strip;
}
constexpr i64 attention_backward_bf16_floats(i64 seq_length, i64 head_dim) {
    constexpr i64 block = attention_block;
    const i64 pairs = (head_dim + 1) / 2;
    const i64 columns = round_up(head_dim, 16);
    const i64 head = 2 * round_up(seq_length * pairs, 16) + (seq_length + 1) / 2 * columns * 2 +
                     3 * seq_length * columns + round_up(seq_length, 16);
    return head + 2 * block * pairs + block / 2 * columns + 7 * attention_strip * block / 2 +
           block * block;
}

}  // namespace lm::cost
