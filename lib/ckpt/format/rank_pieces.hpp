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

// The memory of one kind of state on a rank: the elements `held` of the flat buffer, in order and
// without gaps.
struct StateMemory {
    SliceKind kind;
    DType dtype = DType::fp32;
    const void* data = nullptr;  // null when the files are only planned
    std::vector<Range> held;     // ascending
};

// Returns the pieces that tensor rank `tp_rank` writes: for each of the ranges `owned` of its flat
// buffer, the counted elements of each of `states`.
std::vector<Piece> pieces_of_rank(const spec::RankLayout& layout, i64 tp_rank,
                                  const std::vector<Range>& owned,
                                  const std::vector<StateMemory>& states);

}  // namespace lm::ckpt
