// SPDX-License-Identifier: Apache-2.0
#include "text/bpe/merges/pair_table.hpp"

#include <bit>
#include <numeric>

#include "base/error.hpp"

namespace lm::text {
namespace {

// Perfect hashing by pilots (Fox, Chen and Heath, SIGIR 1992; Pibiri and Trani, "PTHash", SIGIR
// 2021). Keys are hashed into small buckets. A pilot is a small number that changes the hash of a
// bucket's keys. Each bucket gets the first pilot that maps all its keys to free slots.

// Finds the pilot of each bucket. bucket_of(k) is the bucket of key k, and slot_of(k, pilot) the
// slot of key k with this pilot. The pilots of empty buckets stay unchanged. Returns false if some
// bucket has no pilot below 256 that fits.
template <typename BucketOf, typename SlotOf>
bool find_pilots(size_t n_keys, size_t n_slots, std::span<u8> pilots, BucketOf bucket_of,
                 SlotOf slot_of) {
    std::vector<u32> begins(pilots.size() + 1), filled(pilots.size()), sorted(n_keys);
    for (size_t k = 0; k < n_keys; ++k) ++begins[bucket_of(k) + 1];
    std::partial_sum(begins.begin(), begins.end(), begins.begin());
    for (size_t k = 0; k < n_keys; ++k) {
        const size_t bucket = bucket_of(k);
        sorted[begins[bucket] + filled[bucket]++] = static_cast<u32>(k);
    }
    // Large buckets are the hardest to place, so they come first, while most slots are free.
    std::vector<u32> order;
    for (u32 bucket = 0; bucket < pilots.size(); ++bucket)
        if (filled[bucket] > 0) order.push_back(bucket);
    std::ranges::sort(order, [&](u32 a, u32 b) { return filled[a] > filled[b]; });
    std::vector<u8> taken(n_slots);
    const auto try_pilot = [&](std::span<const u32> keys, u32 pilot) {
        size_t n = 0;
        for (; n < keys.size() && taken[slot_of(keys[n], pilot)] == 0; ++n)
            taken[slot_of(keys[n], pilot)] = 1;
        if (n == keys.size()) return true;
        while (n > 0) taken[slot_of(keys[--n], pilot)] = 0;
        return false;
    };
    return std::ranges::all_of(order, [&](u32 bucket) {
        const auto keys = std::span<const u32>(sorted).subspan(begins[bucket], filled[bucket]);
        for (u32 pilot = 0; pilot < 256; ++pilot) {
            pilots[bucket] = static_cast<u8>(pilot);
            if (try_pilot(keys, pilot)) return true;
        }
        return false;
    });
}

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
