// SPDX-License-Identifier: Apache-2.0
// Counts the distinct pre-tokens of a corpus with many threads in bounded memory. The training of a
// tokenizer starts from these counts. The counts do not depend on the number of threads.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.hpp"
#include "base/threads.hpp"
#include "base/types.hpp"

namespace lm::text {

// A hash table from pre-tokens to counts with open addressing. One string holds the bytes of all
// pre-tokens.
class PretokenTable {
  public:
    void add(std::string_view pretoken, u64 hash, i64 n);
    i64 size() const { return n_; }
    void clear();  // keeps the memory for reuse

    // Calls use(pre-token, hash, count) for every pre-token, in no particular order.
    template <typename Use>
    void for_each(Use use) const {
        for (const Slot& slot : slots_) {
            if (slot.count > 0) use(pretoken_of(slot), slot.hash, slot.count);
        }
    }

  private:
    struct Slot {
        u64 hash;
        u64 begin;  // offset in bytes_
        i64 count;  // 0: the slot is free
        u32 size;
    };
    std::string_view pretoken_of(const Slot& slot) const {
        return std::string_view(bytes_).substr(slot.begin, slot.size);
    }
    void grow();

    std::vector<Slot> slots_;
    std::string bytes_;
    i64 n_ = 0;
};

// Counts in rounds. In a round, each worker counts into its own tables. The end of the round merges
// the tables. The counts depend on where rounds end, so the caller must end rounds at positions
// that depend on the input alone.
class PretokenCounter {
  public:
    // If there are more than `max_pretokens` distinct pre-tokens at the end of a round, the rarest
    // are dropped until at most half of that number remain.
    PretokenCounter(int n_workers, i64 max_pretokens);

    void add(int worker, std::string_view pretoken) {
        const u64 hash = hash64(pretoken);
        workers_[static_cast<size_t>(worker)][shard_of(hash)].add(pretoken, hash, 1);
    }
    void end_round(ThreadPool& pool);

    i64 size() const;  // number of distinct pre-tokens at the end of the last round
    // Returns the highest count that a dropped pre-token can have. Pre-tokens with at most this
    // count may be missing. 0: none is missing.
    i64 dropped_count() const { return rare_; }

    // Calls use(pre-token, count) for every pre-token.
    template <typename Use>
    void for_each(Use use) const {
        for (const PretokenTable& shard : shards_) {
            shard.for_each(
                [&](std::string_view pretoken, u64, i64 count) { use(pretoken, count); });
        }
    }

  private:
    static constexpr size_t n_shards = 64;
    using Shards = std::array<PretokenTable, n_shards>;
    static size_t shard_of(u64 hash) { return hash >> 58; }
    void drop_rare();

    Shards shards_;
    std::vector<Shards> workers_;
    i64 max_pretokens_;
    i64 rare_ = 0;
};

}  // namespace lm::text
