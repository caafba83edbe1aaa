// SPDX-License-Identifier: Apache-2.0
// Who holds what: the part of every tensor that one rank of a (dp, pp, tp) grid holds, and where it
// lies in the rank's flat parameter buffer. Ranks are numbered as Megatron does, tensor ranks
// fastest. Vocabulary padding lives here and only here: padded rows exist in memory, are zero, are
// masked out of the softmax and never reach a checkpoint.
#pragma once

#include <vector>

#include "spec/parallel_config.hpp"
#include "spec/partition.hpp"
#include "spec/tensor_table.hpp"

namespace lm::spec {

// A box [start, end) per dimension in a tensor's global, unpadded shape.
struct Box {
    Shape start;
    Shape end;
    Shape shape() const;
    friend bool operator==(const Box&, const Box&) = default;
};

struct LocalTensor {
    i64 index = 0;            // into the tensor table
    Box box;                  // what this rank holds of it
    Shape shape;              // as it lies in memory: the box's shape, vocabulary rows padded
    i64 offset = 0;           // first element in the flat buffer
    i64 unit = 0;             // of the model (below) after whose backward its gradient is complete
    bool replicated = false;  // the same on every tensor rank
    bool copy = false;        // the last stage's copy of a tied embedding
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

// Elements of a rank's flat buffers: the layout's, and so many behind them that the data-parallel
// ranks can share them in equal parts of whole blocks. What is added holds zeros.
i64 flat_elements(const RankLayout& layout, const ParallelConfig& parallel);

// Shares may differ by one granule: a key-value group with its heads, a row.
struct TensorShare {
    i64 n_heads = 0;
    i64 n_groups = 0;
    i64 ffn = 0;
    i64 first_head = 0;   // global number of local head 0
    i64 vocab_rows = 0;   // of the word table in memory
    i64 vocab_start = 0;  // global number of row 0
    i64 n_vocab = 0;      // rows that are not padding
};
TensorShare tensor_share(const ModelConfig& config, const ParallelConfig& parallel, i64 tp_rank);

}  // namespace lm::spec
