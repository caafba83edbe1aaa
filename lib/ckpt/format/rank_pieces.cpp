// SPDX-License-Identifier: Apache-2.0
#include "ckpt/format/rank_pieces.hpp"

#include "ckpt/format/flat_pieces.hpp"

namespace lm::ckpt {

spec::RankLayout counted_tensors(const spec::RankLayout& layout, i64 tp_rank) {
    spec::RankLayout counted = layout;
    std::erase_if(counted.tensors, [tp_rank](const spec::LocalTensor& tensor) {
        return tensor.copy || (tensor.replicated && tp_rank > 0);
    });
    return counted;
}

std::vector<Piece> pieces_of_rank(const spec::RankLayout& layout, i64 tp_rank,
                                  const std::vector<Range>& owned, const StateMemory& memory) {
    const spec::RankLayout counted = counted_tensors(layout, tp_rank);
    std::vector<Piece> pieces;
    // `first`: index in `data` of the first element of `range`.
    const auto add = [&](SliceKind kind, DType dtype, const void* data, i64 first,
                         const Range& range) {
        for (Piece& piece : pieces_of(counted, kind, dtype, data, range.begin, range.end)) {
            if (data != nullptr)
                piece.data = static_cast<const std::byte*>(piece.data) + first * size_of(dtype);
            pieces.push_back(std::move(piece));
        }
    };
    for (const Range& range : owned) {
        add(SliceKind::weight, memory.weights_dtype, memory.weights, range.begin, range);
    }
    i64 n_before = 0;
    for (const Range& range : owned) {
        const i64 first = memory.sharded ? n_before : range.begin;
        if (is_half(memory.weights_dtype))
            add(SliceKind::master, DType::fp32, memory.masters, first, range);
        add(SliceKind::exp_avg, DType::fp32, memory.exp_avg, first, range);
        add(SliceKind::exp_avg_sq, DType::fp32, memory.exp_avg_sq, first, range);
        n_before += range.size();
    }
    return pieces;
}

}  // namespace lm::ckpt
