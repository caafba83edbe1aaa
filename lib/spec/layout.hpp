// SPDX-License-Identifier: Apache-2.0
// Who holds what: the part of every tensor that one rank of a (dp, pp, tp) grid holds, and where it
// lies in the rank's flat parameter buffer. Ranks are numbered as Megatron does, tensor ranks
// fastest. Vocabulary padding lives here and only here: padded rows exist in memory, are zero, are
// masked out of the softmax and never reach a checkpoint.
#pragma once

#include <vector>

#include "spec/model.hpp"

namespace lm::spec {

struct ParallelConfig {
    i64 tp = 1;                    // tensor
    i64 pp = 1;                    // pipeline
    i64 dp = 1;                    // data
    i64 vocab_divisible_by = 128;  // --make-vocab-size-divisible-by; times tp
    i64 pad_vocab_to = 0;          // --pad-vocab-size-to; 0: by vocab_divisible_by
};

// Rows of the word table with padding, over all tensor ranks.
i64 padded_vocab(const ModelConfig& config, const ParallelConfig& parallel);

// A box [start, end) per dimension in a tensor's global, unpadded shape.
struct Box {
    Shape start;
    Shape end;
    Shape shape() const;
    friend bool operator==(const Box&, const Box&) = default;
};

struct LocalTensor {
    i64 index = 0;   // into the tensor table
    Box box;         // what this rank holds of it
    Shape shape;     // as it lies in memory: the box's shape, vocabulary rows padded
    i64 offset = 0;  // first element in the flat buffer
    i64 numel() const { return shape.numel(); }
    i64 end() const { return offset + numel(); }
};

struct RankLayout {
    std::vector<LocalTensor> tensors;  // in table order, ascending offsets
    i64 n_elements = 0;                // of the flat buffer, alignment gaps included
};

// Blocks of adjacent tensors start at multiples of this many elements; gaps hold zeros.
constexpr i64 block_alignment = 32;

RankLayout rank_layout(const ModelConfig& config, const std::vector<TensorSpec>& table,
                       const ParallelConfig& parallel, i64 tp_rank, i64 pp_rank);

// The first layer of pipeline stage `pp_rank` (of stage pp: one past the last layer).
i64 first_layer(const ModelConfig& config, const ParallelConfig& parallel, i64 pp_rank);

}  // namespace lm::spec
