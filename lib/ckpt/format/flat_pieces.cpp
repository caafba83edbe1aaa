// SPDX-License-Identifier: Apache-2.0
#include "ckpt/format/flat_pieces.hpp"

#include "ckpt/format/index.hpp"

namespace lm::ckpt {
namespace {

// Returns nullptr for pieces without memory.
const void* at(const void* data, i64 bytes) {
    return data == nullptr ? nullptr : static_cast<const std::byte*>(data) + bytes;
}

}  // namespace

std::vector<Piece> pieces_of(const spec::RankLayout& layout, SliceKind kind, DType dtype,
                             const void* data, i64 begin, i64 end) {
    std::vector<Piece> pieces;
    for (const spec::LocalTensor& local : layout.tensors) {
        const FlatPart part = part_in(local, begin, end);
        if (part.empty()) continue;
        pieces.push_back({.tensor = local.index,
                          .kind = kind,
                          .dtype = dtype,
                          .box = local.box,
                          .flat_begin = part.flat_begin,
                          .flat_end = part.flat_end,
                          .data = at(data, part.buffer_offset * size_of(dtype))});
    }
    return pieces;
}

std::vector<Piece> pieces_of(const spec::RankLayout& layout, SliceKind kind, DType dtype,
                             const void* data) {
    return pieces_of(layout, kind, dtype, data, 0, layout.n_elements);
}

}  // namespace lm::ckpt
