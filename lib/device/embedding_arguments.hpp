// SPDX-License-Identifier: Apache-2.0
// The arguments of the embedding lookup and of its gradient.
#pragma once

#include "device/view.hpp"

namespace lm::device {

// out[n] = table[tokens[n] - vocab_start] + position_table[positions[n]]; the first term is zero
// when another rank holds the row.
struct EmbeddingForward {
    View tokens{};  // [N] int32
    View table{};   // [V, C] bf16|fp16|fp32
    i64 vocab_start = 0;
    View positions{};       // [N] int32; optional
    View position_table{};  // [P, C] bf16|fp16|fp32; present if `positions` is
    View out{};             // [N, C] bf16|fp16|fp32
};

// dtable[tokens[n] - vocab_start] += dout[n]; dposition_table[positions[n]] += dout[n]. token_order
// and position_order list the rows n sorted by tokens[n] and positions[n], rows with equal values
// by ascending n. A GPU needs the list of each table; the CPU ignores the lists.
struct EmbeddingBackward {
    View tokens{};       // [N] int32
    View token_order{};  // [N] int32
    View dout{};         // [N, C] bf16|fp16|fp32
    View dtable{};       // [V, C] fp32, accumulated
    i64 vocab_start = 0;
    View positions{};        // [N] int32; optional
    View position_order{};   // [N] int32; none if `positions` is none
    View dposition_table{};  // [P, C] fp32, accumulated; present if `positions` is
};

}  // namespace lm::device
