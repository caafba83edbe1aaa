// SPDX-License-Identifier: Apache-2.0
#include "ckpt/format/rank_pieces.hpp"

#include <algorithm>

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
                                  const std::vector<Range>& owned,
                                  const std::vector<StateMemory>& states) {
    const spec::RankLayout counted = counted_tensors(layout, tp_rank);
    std::vector<Piece> pieces;
    const auto add = [&](const StateMemory& state, const Range& range) {
        i64 first = 0;  // index in state.data of the first element of `held`
        for (const Range& held : state.held) {
            const Range both{std::max(held.begin, range.begin), std::min(held.end, range.end)};
            const i64 skipped = (first + both.begin - held.begin) * size_of(state.dtype);
            first += held.size();
            if (both.begin >= both.end) continue;
            for (Piece& piece :
                 pieces_of(counted, state.kind, state.dtype, state.data, both.begin, both.end)) {
                if (state.data != nullptr)
                    piece.data = static_cast<const std::byte*>(piece.data) + skipped;
                pieces.push_back(std::move(piece));
            }
        }
    };
    for (const Range& range : owned) {
        for (const StateMemory& state : states) add(state, range);
    }
    return pieces;
}

}  // namespace lm::ckpt
