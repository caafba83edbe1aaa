// SPDX-License-Identifier: Apache-2.0
#include "text/bpe/pretoken_counts.hpp"

#include <algorithm>
#include <map>

namespace lm::text {

void PretokenTable::add(std::string_view pretoken, u64 hash, i64 n) {
    if (2 * (n_ + 1) > static_cast<i64>(slots_.size())) grow();
    const size_t mask = slots_.size() - 1;
    for (size_t at = hash & mask;; at = (at + 1) & mask) {
        Slot& slot = slots_[at];
        if (slot.count == 0) {
            slot = {hash, bytes_.size(), n, static_cast<u32>(pretoken.size())};
            bytes_.append(pretoken);
            ++n_;
            return;
        }
        if (slot.hash == hash && pretoken_of(slot) == pretoken) {
            slot.count += n;
            return;
        }
    }
}

void PretokenTable::grow() {
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

void PretokenTable::clear() {
    std::ranges::fill(slots_, Slot{});
    bytes_.clear();
    n_ = 0;
}

PretokenCounter::PretokenCounter(int n_workers, i64 max_pretokens)
    : workers_(static_cast<size_t>(n_workers)), max_pretokens_(max_pretokens) {}

void PretokenCounter::end_round(ThreadPool& pool) {
    // The hash of a pre-token selects its shard, so the tasks share no table.
    pool.run(n_shards, [&](i64 task, int) {
        const auto s = static_cast<size_t>(task);
        for (Shards& worker : workers_) {
            worker[s].for_each([&](std::string_view pretoken, u64 hash, i64 count) {
                shards_[s].add(pretoken, hash, count);
            });
            worker[s].clear();
        }
    });
    if (size() > max_pretokens_) drop_rare();
}

i64 PretokenCounter::size() const {
    i64 n = 0;
    for (const PretokenTable& shard : shards_) n += shard.size();
    return n;
}

void PretokenCounter::drop_rare() {
    std::map<i64, i64> pretokens_with_count;
    for_each([&](std::string_view, i64 count) { ++pretokens_with_count[count]; });
    i64 left = size();
    i64 rare = 0;
    for (const auto& [count, n] : pretokens_with_count) {
        if (left <= max_pretokens_ / 2) break;
        left -= n;
        rare = count;
    }
    for (PretokenTable& shard : shards_) {
        PretokenTable kept;
        shard.for_each([&](std::string_view pretoken, u64 hash, i64 count) {
            if (count > rare) kept.add(pretoken, hash, count);
        });
        shard = std::move(kept);
    }
    // A pre-token may be dropped in several rounds, each time with at most that round's `rare`
    // occurrences, so the bound of its count is the sum.
    rare_ += rare;
}

}  // namespace lm::text
