// SPDX-License-Identifier: Apache-2.0
#include "text/bpe/merges/pair_table.hpp"

#include <algorithm>
#include <bit>
#include <vector>

#include "base/error.hpp"
#include "text/bpe/merges/perfect_hash.hpp"

namespace lm::text {
namespace {

constexpr size_t keys_per_bucket = 3;

}  // namespace

PairTable::PairTable(std::span<const u64> keys) : slots_(1), pilots_(1) {
    std::vector<u64> sorted(keys.begin(), keys.end());
    std::ranges::sort(sorted);
    const auto twice = std::ranges::adjacent_find(sorted);
    LM_CHECK(twice == sorted.end(), "expected distinct keys of merges, got {:#x} twice", *twice);
    // If at most 4/5 of the slots are used, pilots nearly always exist for all buckets.
    size_t n_slots = std::bit_ceil(std::max<size_t>(1024, keys.size() * 5 / 4));
    while (!build(keys, n_slots)) n_slots *= 2;
}

bool PairTable::build(std::span<const u64> keys, size_t n_slots) {
    const size_t n_buckets = std::bit_floor(n_slots / keys_per_bucket);
    slots_ = HugeArray<u64>(n_slots);
    pilots_ = HugeArray<u8>(n_buckets);
    slot_mask_ = n_slots - 1;
    bucket_shift_ = 64 - std::countr_zero(n_buckets);
    for (size_t slot = 0; slot < n_slots; ++slot) slots_[slot] = empty;
    const auto hash = [&](size_t k) { return hash_of(keys[k] << rank_bits); };
    if (!find_pilots(
            keys.size(), n_slots, std::span(&pilots_[0], n_buckets),
            [&](size_t k) { return hash(k) >> bucket_shift_; },
            [&](size_t k, u64 pilot) { return place_of(hash(k), pilot); })) {
        return false;
    }
    for (size_t rank = 0; rank < keys.size(); ++rank)
        slots_[place_of(keys[rank] << rank_bits)] = keys[rank] << rank_bits | rank;
    return true;
}

NarrowPairTable::NarrowPairTable(std::span<const u32> keys)
    : slots_(n_slots), pilots_(size_t{1} << (32 - bucket_shift)) {
    ok_ = keys.size() < n_slots * 7 / 8 &&
          find_pilots(
              keys.size(), n_slots, pilots_,
              [&](size_t k) { return hash_of(keys[k]) >> bucket_shift; },
              [&](size_t k, u32 pilot) { return place_of(hash_of(keys[k]), pilot); });
    for (size_t slot = 0; slot < n_slots; ++slot) slots_[slot] = none;
    for (size_t rank = 0; ok_ && rank < keys.size(); ++rank) {
        const u32 hash = hash_of(keys[rank]);
        slots_[place_of(hash, pilots_[hash >> bucket_shift])] =
            (hash & upper_half) | static_cast<u32>(rank);
    }
}

}  // namespace lm::text
