// SPDX-License-Identifier: Apache-2.0
#include "text/short_merger.hpp"

#include <algorithm>

namespace lm::text {
namespace {

constexpr i32 none = static_cast<i32>(BpeModel::no_rank << 4);  // and everything above it

i32 pack(u32 rank, u32 i) {
    return static_cast<i32>(rank << 4 | i);
}

}  // namespace

void ShortMerger::begin(size_t lane, std::span<const PieceKey> pieces, size_t piece) {
    Lane& own = *order_[lane];
    const PieceKey& key = pieces[piece];
    own.piece = piece;
    own.n_bytes = key.length();
    const auto byte = [&](u32 i) { return key.byte(i - 1); };
    for (u32 i = 0; i < n_pairs; ++i) own.pairs[i] = none;
    for (u32 i = 0; i <= n_pairs; ++i) {
        own.next[i] = static_cast<u8>(i + 1);
        own.previous[i] = static_cast<u8>(i - 1);
    }
    own.ids[0] = own.ids[own.n_bytes + 1] = BpeModel::no_id;
    for (u32 i = 1; i <= own.n_bytes; ++i) own.ids[i] = model_->byte_id(byte(i));
    for (u32 i = 1; i < own.n_bytes; ++i)
        own.pairs[i] = pack(model_->byte_rank(byte(i), byte(i + 1)), i);
    own.left = own.before = 0;
    own.left_probe = own.before_probe = probe(BpeModel::no_id, own.ids[1]);
    operations_ += own.n_bytes;
}

void ShortMerger::settle(Lane& lane) {
    lane.pairs[lane.left] = pack(lane.left_probe.rank(), lane.left);
    lane.pairs[lane.before] = pack(lane.before_probe.rank(), lane.before);
}

// Makes the next merge, the smallest of (rank, position), and asks for the ranks of the two new
// pairs; false when there is none.
bool ShortMerger::step(Lane& lane) {
    operations_ += lane.n_bytes;
    i32 best = none;
    for (u32 i = 0; i < n_pairs; ++i) best = std::min(best, lane.pairs[i]);
    if (best >= none) return false;
    const u32 left = static_cast<u32>(best) & 15;
    const u32 right = lane.next[left];
    const u32 after = lane.next[right];
    const u32 before = lane.previous[left];
    const i32 id = model_->result(static_cast<u32>(best) >> 4);
    lane.ids[left] = id;
    lane.next[left] = static_cast<u8>(after);
    lane.previous[after] = static_cast<u8>(left);
    lane.pairs[right] = none;
    lane.left = left;
    lane.before = before;
    lane.left_probe = probe(id, lane.ids[after]);
    lane.before_probe = probe(lane.ids[before], id);
    lane.left_probe.prefetch();
    lane.before_probe.prefetch();
    return true;
}

size_t ShortMerger::take_ids(const Lane& lane, i32* ids) {
    size_t n = 0;
    for (u32 i = 1; i <= lane.n_bytes; i = lane.next[i]) ids[n++] = lane.ids[i];
    return n;
}

}  // namespace lm::text
