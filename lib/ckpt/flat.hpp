// SPDX-License-Identifier: Apache-2.0
// Which elements of a local tensor lie in the part [begin, end) of a rank's flat buffer. Padding is
// only at the end of dimension 0, so the box's elements come first and without gaps.
#pragma once

#include <algorithm>
#include <vector>

#include "base/error.hpp"
#include "ckpt/index.hpp"
#include "ckpt/save.hpp"
#include "spec/rank_layout.hpp"

namespace lm::ckpt {

struct FlatPart {
    i64 flat_begin = 0;  // elements of the box, in row-major order
    i64 flat_end = 0;
    i64 buffer_offset = 0;  // of the first one, in elements from the buffer's `begin`
    bool empty() const { return flat_begin >= flat_end; }
};

inline FlatPart part_in(const spec::LocalTensor& local, i64 begin, i64 end) {
    const Shape box = local.box.shape();
    for (int dim = 1; dim < box.rank(); ++dim) {
        LM_CHECK(box[dim] == local.shape[dim], "padding in an inner dimension");
    }
    const i64 low = std::max(begin, local.offset);
    const i64 high = std::min(end, local.offset + box.numel());
    return {low - local.offset, high - local.offset, low - begin};
}

// Pieces of a rank's flat buffer: its elements [begin, end), of which `data` holds the first at
// data[0]. Tensors outside that range give none; by default the range is the whole buffer.
std::vector<Piece> pieces_of(const spec::RankLayout& layout, SliceKind kind, DType dtype,
                             const void* data);
std::vector<Piece> pieces_of(const spec::RankLayout& layout, SliceKind kind, DType dtype,
                             const void* data, i64 begin, i64 end);

}  // namespace lm::ckpt
