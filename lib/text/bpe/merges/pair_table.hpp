// SPDX-License-Identifier: Apache-2.0
// Maps pairs of tokens to the ranks of their merges by perfect hashing. A look-up reads
// one pilot and one slot, and never probes further. Nearly all pairs of a text have no merge; their
// look-up takes no longer than the look-up of a pair with a merge.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "base/types.hpp"
#include "text/bpe/merges/huge_array.hpp"

namespace lm::text {

// A table for ids of 21 bits and ranks of 22 bits. The 50,000 merges of GPT-2 take half a megabyte.
// A slot holds key << rank_bits | rank. XOR of the slot with the wanted key leaves the rank if the
// keys are equal, else a number of at least no_rank.
class PairTable {
  public:
    static constexpr int rank_bits = 22, id_bits = 21;
    static constexpr u32 no_rank = 1U << rank_bits;

    static u64 key_of(i32 left, i32 right) {
        return static_cast<u64>(static_cast<u32>(left)) << id_bits | static_cast<u32>(right);
    }

    // The rank of a key is its index in `keys`. All keys are different.
    explicit PairTable(std::span<const u64> keys);

    // A look-up has two steps. Between the two steps, the slots of several look-ups can be
    // prefetched.
    struct Probe {
        const u64* slot;
        u64 wanted;
        void prefetch() const { __builtin_prefetch(slot); }
        // Returns the rank, or a number >= no_rank if the pair has none.
        u64 rank_or_more() const { return *slot ^ wanted; }
        // Returns the rank, or no_rank. The minimum replaces a branch, which would be
        // unpredictable.
        u32 rank() const { return static_cast<u32>(std::min<u64>(rank_or_more(), no_rank)); }
    };
    Probe probe(u64 key) const {
        const u64 wanted = key << rank_bits;
        return {&slots_[place_of(wanted)], wanted};
    }
    u32 find(u64 key) const { return probe(key).rank(); }

  private:
    static constexpr u64 empty = ~u64{0};  // an empty slot: has the key of (no_id, no_id)

    // XORs both halves of the product, so that every bit of the hash depends on every bit of the
    // key.
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

    HugeArray<u64> slots_;
    HugeArray<u8> pilots_;  // indexed by bucket
    size_t slot_mask_ = 0;
    int bucket_shift_ = 0;
};

// PairTable for ids and ranks of 16 bits. A slot has four bytes, so the merges of GPT-2 take a
// quarter of a megabyte. The hash is a bijection of the 32 bits of a pair. A slot holds the rank
// and only the upper half of the hash (quotienting, Knuth, TAOCP 3, section 6.4, exercise 13). This
// half selects the bucket, the bucket selects the pilot, and pilot and index of the slot give the
// lower half. So equal upper halves mean equal pairs.
class NarrowPairTable {
  public:
    static constexpr size_t n_slots = size_t{1} << 16;
    static constexpr u32 none = 0xFFFF;  // means "no rank" and "no id"

    static u32 key_of(u32 left, u32 right) { return left << 16 | right; }

    // The rank of a key is its index in `keys`. All keys are different; no id is `none`.
    explicit NarrowPairTable(std::span<const u32> keys);

    // Returns false if there are too many keys for a table of this size.
    bool ok() const { return ok_; }

    struct Probe {
        const u32* slot;
        u32 upper;
        void prefetch() const { __builtin_prefetch(slot); }
        // Returns the rank, or a number >= `none` if the pair has none.
        u32 rank_or_more() const { return *slot ^ upper; }
    };
    Probe probe(u32 key) const {
        const u32 hash = hash_of(key);
        return {&slots_[place_of(hash, pilots_[hash >> bucket_shift])], hash & upper_half};
    }

  private:
    static constexpr int bucket_shift = 18;
    static constexpr u32 upper_half = 0xFFFF'0000;

    // The hash is a bijection, because multiplication by an odd number and XOR with a right shift
    // are bijections (the finalizer of MurmurHash3).
    static u32 hash_of(u32 key) {
        const u32 once = key * 0x85EB'CA6BU;
        return (once ^ once >> 16) * 0xC2B2'AE35U;
    }
    // hash >> 15 | 1 depends only on the upper half of the hash. Hashes with equal upper halves
    // have the same pilot, and their slot is the lower half plus a constant. So their slots are
    // distinct.
    static size_t place_of(u32 hash, u32 pilot) {
        return (hash + pilot * (hash >> 15 | 1)) % n_slots;
    }

    HugeArray<u32> slots_;
    std::vector<u8> pilots_;  // indexed by bucket
    bool ok_ = true;
};

}  // namespace lm::text
