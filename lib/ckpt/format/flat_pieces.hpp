// SPDX-License-Identifier: Apache-2.0
// Finds the elements of a rank's local tensors in a range [begin, end) of its flat buffer
// (spec::RankLayout). A local tensor has padding only at the end of dimension 0, so in the buffer
// the padding follows the elements of the tensor's box, which have no gaps.
#pragma once

#include <algorithm>
#include <vector>

#include "base/error.hpp"
#include "ckpt/format/data_file.hpp"
#include "ckpt/format/index.hpp"
#include "spec/rank_layout.hpp"

namespace lm::ckpt {

struct FlatPart {
    i64 flat_begin = 0;  // elements [flat_begin, flat_end) of the box in row-major order
    i64 flat_end = 0;
    i64 buffer_offset = 0;  // offset of the first element, counted from `begin` of the range
    bool empty() const { return flat_begin >= flat_end; }
};

// Returns the part of `local` that lies in [begin, end) of the flat buffer.
inline FlatPart part_in(const spec::LocalTensor& local, i64 begin, i64 end) {
    const Shape box = local.box.shape();
    for (int dim = 1; dim < box.rank(); ++dim) {
        LM_CHECK(box[dim] == local.shape[dim], "dimension {}: expected {} elements, got {}", dim,
                 local.shape[dim], box[dim]);
    }
    const i64 low = std::max(begin, local.offset);
    const i64 high = std::min(end, local.offset + box.numel());
    return {low - local.offset, high - local.offset, low - begin};
}

// Returns the pieces that together are the elements [begin, end) of a rank's flat buffer (by
// default all). Element `begin` is at data[0].
std::vector<Piece> pieces_of(const spec::RankLayout& layout, SliceKind kind, DType dtype,
                             const void* data);
std::vector<Piece> pieces_of(const spec::RankLayout& layout, SliceKind kind, DType dtype,
                             const void* data, i64 begin, i64 end);

}  // namespace lm::ckpt
