// SPDX-License-Identifier: Apache-2.0
// From pairs of tokens to the ranks of their merges: a perfect hash (perfect_hash.hpp). One small
// array and one slot are all that a look-up reads, and GPT-2's 50,000 merges take half a megabyte.
#pragma once

#include <algorithm>
#include <span>

#include "base/types.hpp"
#include "text/bpe/huge_array.hpp"

namespace lm::text {

class PairTable {
  public:
    static constexpr int rank_bits = 22, id_bits = 21;
    static constexpr u32 no_rank = 1U << rank_bits;

    static u64 key_of(i32 left, i32 right) {
        return static_cast<u64>(static_cast<u32>(left)) << id_bits | static_cast<u32>(right);
    }

    // The rank of a key is where it stands; all are different.
    explicit PairTable(std::span<const u64> keys);

    // A look-up in two steps, between which the memory of others may be fetched too.
    struct Probe {
        const u64* slot;
        u64 wanted;
        void prefetch() const { __builtin_prefetch(slot); }
        // The rank, or some number above all ranks.
        u64 rank_or_more() const { return *slot ^ wanted; }
        // The rank, or no_rank. No branches: most pairs never merge, but which ones nobody can
        // predict.
        u32 rank() const { return static_cast<u32>(std::min<u64>(rank_or_more(), no_rank)); }
    };
    Probe probe(u64 key) const {
        const u64 wanted = key << rank_bits;
        return {&slots_[place_of(wanted)], wanted};
    }
    u32 find(u64 key) const { return probe(key).rank(); }

  private:
    static constexpr u64 empty = ~u64{0};

    // A product's halves together: every bit of the key reaches every bit of the hash.
    static u64 hash_of(u64 wanted) {
        const auto product = static_cast<unsigned __int128>(wanted) * 0x9E3779B97F4A7C15ULL;
        return static_cast<u64>(product >> 64) ^ static_cast<u64>(product);
    }
    size_t place_of(u64 wanted) const {
        const u64 hash = hash_of(wanted);
        return place_of(hash, pilots_[hash >> bucket_shift_]);
    }
    size_t place_of(u64 hash, u64 pilot) const {
        return (hash + pilot * (hash >> 29)) & slot_mask_;
    }
    bool build(std::span<const u64> keys, size_t n_slots);

    HugeArray<u64> slots_;  // 42 bits of the pair, 22 of the rank
    HugeArray<u8> pilots_;  // by bucket
    size_t slot_mask_ = 0;
    int bucket_shift_ = 0;
};

}  // namespace lm::text
