// SPDX-License-Identifier: Apache-2.0
#include "text/bpe/pretoken_counts.hpp"

#include <algorithm>
#include <map>

namespace lm::text {

void PieceTable::add(std::string_view piece, u64 hash, i64 n) {
    if (2 * (n_ + 1) > static_cast<i64>(slots_.size())) grow();
    const size_t mask = slots_.size() - 1;
    for (size_t at = hash & mask;; at = (at + 1) & mask) {
        Slot& slot = slots_[at];
        if (slot.count == 0) {
            slot = {hash, bytes_.size(), n, static_cast<u32>(piece.size())};
            bytes_.append(piece);
            ++n_;
            return;
        }
        if (slot.hash == hash && piece_of(slot) == piece) {
            slot.count += n;
            return;
        }
    }
}

void PieceTable::grow() {
    std::vector<Slot> old(std::max<size_t>(64, slots_.size() * 2), Slot{});
    old.swap(slots_);
    const size_t mask = slots_.size() - 1;
    for (const Slot& slot : old) {
        if (slot.count == 0) continue;
        size_t at = slot.hash & mask;
        while (slots_[at].count != 0) at = (at + 1) & mask;
        slots_[at] = slot;
    }
}

void PieceTable::clear() {
    std::ranges::fill(slots_, Slot{});
    bytes_.clear();
    n_ = 0;
}

PieceCounter::PieceCounter(int n_workers, i64 most_pieces)
    : workers_(static_cast<size_t>(n_workers)), most_pieces_(most_pieces) {}

void PieceCounter::end_round(ThreadPool& pool) {
    pool.run(n_shards, [&](i64 task, int) {
        const auto s = static_cast<size_t>(task);
        for (Shards& worker : workers_) {
            worker[s].for_each([&](std::string_view piece, u64 hash, i64 count) {
                shards_[s].add(piece, hash, count);
            });
            worker[s].clear();
        }
    });
    if (size() > most_pieces_) forget_rare();
}

i64 PieceCounter::size() const {
    i64 n = 0;
    for (const PieceTable& shard : shards_) n += shard.size();
    return n;
}

void PieceCounter::forget_rare() {
    std::map<i64, i64> pieces_with_count;
    for_each([&](std::string_view, i64 count) { ++pieces_with_count[count]; });
    i64 left = size();
    i64 rare = 0;
    for (const auto& [count, n] : pieces_with_count) {
        if (left <= most_pieces_ / 2) break;
        left -= n;
        rare = count;
    }
    for (PieceTable& shard : shards_) {
        PieceTable kept;
        shard.for_each([&](std::string_view piece, u64 hash, i64 count) {
            if (count > rare) kept.add(piece, hash, count);
        });
        shard = std::move(kept);
    }
    rare_ += rare;
}

}  // namespace lm::text
