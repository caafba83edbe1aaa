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
// The bytes of oneDNN's scratchpad for one worker.
constexpr i64 matmul_scratch_bytes = i64{4} << 20;
// The bytes of an fp32 tile of a matrix product, before it is rounded to 16 bits.
constexpr i64 matmul_tile_bytes = i64{288} * 512 * 4;

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

}  // namespace lm::cost
