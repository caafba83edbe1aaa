// SPDX-License-Identifier: Apache-2.0
// PairTable for ids and ranks of 16 bits, in four bytes a slot: of GPT-2's merges a quarter of a
// megabyte. The hash is a bijection of the 32 bits of a pair, and a slot keeps its upper half only:
// that names the bucket and so the pilot, and with them where the slot lies tells the lower half
// (quotienting, Knuth 1973, section 6.4, exercise 13). The test is exact.
#pragma once

#include <span>
#include <vector>

#include "base/types.hpp"
#include "text/bpe/huge_array.hpp"

namespace lm::text {

class NarrowPairs {
  public:
    static constexpr size_t n_slots = size_t{1} << 16;
    static constexpr u32 none = 0xFFFF;  // no rank, and no id

    static u32 key_of(u32 left, u32 right) { return left << 16 | right; }

    // The rank of a key is where it stands; all are different. There is none of 0xFFFF.
    explicit NarrowPairs(std::span<const u32> keys);

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
