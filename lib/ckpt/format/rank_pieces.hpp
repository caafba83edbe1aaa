// SPDX-License-Identifier: Apache-2.0
// The pieces of a checkpoint that one rank of a training writes.
#pragma once

#include <vector>

#include "base/range.hpp"
#include "ckpt/format/data_file.hpp"
#include "spec/rank_layout.hpp"

namespace lm::ckpt {

// Returns `layout` with only the tensors that tensor rank `tp_rank` adds to sums over the model and
// writes to checkpoints. If several ranks hold a tensor, only the layout of the first of these
// ranks keeps the tensor.
spec::RankLayout counted_tensors(const spec::RankLayout& layout, i64 tp_rank);

// The memory of a rank's state. The pointers are null when the files are only planned.
struct StateMemory {
    DType weights_dtype = DType::fp32;  // 16-bit weights have masters
    const void* weights = nullptr;      // the flat buffer
    // fp32. The whole flat buffers, or, with `sharded`, only the elements of the owned ranges, in
    // sequence.
    const void* masters = nullptr;
    const void* exp_avg = nullptr;
    const void* exp_avg_sq = nullptr;
    bool sharded = false;
};

// Returns the pieces that tensor rank `tp_rank` writes: weights, masters and moments of the
// counted elements in the ranges `owned` of its flat buffer.
std::vector<Piece> pieces_of_rank(const spec::RankLayout& layout, i64 tp_rank,
                                  const std::vector<Range>& owned, const StateMemory& memory);

}  // namespace lm::ckpt
