// SPDX-License-Identifier: Apache-2.0
// From pairs of tokens to the ranks of their merges: a perfect hash (perfect_hash.hpp). One small
// array and one slot are all that a look-up reads, and GPT-2's 50,000 merges take half a megabyte.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

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

// PairTable for ids and ranks of 16 bits, in four bytes a slot: of GPT-2's merges a quarter of a
// megabyte. The hash is a bijection of the 32 bits of a pair, and a slot keeps its upper half only:
// that names the bucket and so the pilot, and with them where the slot lies tells the lower half
// (quotienting, Knuth 1973, section 6.4, exercise 13). The test is exact.
class NarrowPairTable {
  public:
    static constexpr size_t n_slots = size_t{1} << 16;
    static constexpr u32 none = 0xFFFF;  // no rank, and no id

    static u32 key_of(u32 left, u32 right) { return left << 16 | right; }

    // The rank of a key is where it stands; all are different. There is none of 0xFFFF.
    explicit NarrowPairTable(std::span<const u32> keys);

    // False: too many for a table of this size.
    bool ok() const { return ok_; }

    struct Probe {
        const u32* slot;
        u32 upper;
        void prefetch() const { __builtin_prefetch(slot); }
        // The rank, or some number above `none`.
        u32 rank_or_more() const { return *slot ^ upper; }
    };
    Probe probe(u32 key) const {
        const u32 hash = hash_of(key);
        return {&slots_[place_of(hash, pilots_[hash >> bucket_shift])], hash & upper_half};
    }

  private:
    static constexpr int bucket_shift = 18;
    static constexpr u32 upper_half = 0xFFFF'0000;

    // Odd multiplications and a shift to the right can all be undone (as in MurmurHash3).
    static u32 hash_of(u32 key) {
        const u32 once = key * 0x85EB'CA6BU;
        return (once ^ once >> 16) * 0xC2B2'AE35U;
    }
    // Of keys of one bucket, those whose upper halves are equal have different lower ones.
    static size_t place_of(u32 hash, u32 pilot) {
        return (hash + pilot * (hash >> 15 | 1)) % n_slots;
    }

    HugeArray<u32> slots_;
    std::vector<u8> pilots_;  // by bucket
    bool ok_ = true;
};

}  // namespace lm::text
