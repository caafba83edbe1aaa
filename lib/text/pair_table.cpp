// SPDX-License-Identifier: Apache-2.0
#include "text/pair_table.hpp"

#include <bit>
#include <numeric>
#include <vector>

#include "base/error.hpp"

namespace lm::text {
namespace {

constexpr size_t keys_per_bucket = 3;

}  // namespace

PairTable::PairTable(std::span<const u64> keys) : slots_(1), pilots_(1) {
    // At most four slots in five are full: nearly always there are pilots for all buckets then.
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

    const auto bucket_of = [&](u64 wanted) { return hash_of(wanted) >> bucket_shift_; };
    std::vector<u32> begins(n_buckets + 1), filled(n_buckets);
    for (const u64 key : keys) ++begins[bucket_of(key << rank_bits) + 1];
    std::partial_sum(begins.begin(), begins.end(), begins.begin());
    std::vector<u64> sorted(keys.size());  // by bucket, as they will lie in the slots
    for (size_t rank = 0; rank < keys.size(); ++rank) {
        const u64 slot = keys[rank] << rank_bits | rank;
        const u64 bucket = bucket_of(keys[rank] << rank_bits);
        sorted[begins[bucket] + filled[bucket]++] = slot;
    }
    // Large buckets first, while there is room.
    std::vector<u32> order(n_buckets);
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::sort(order, [&](u32 a, u32 b) { return filled[a] > filled[b]; });
    return std::ranges::all_of(order, [&](u32 bucket) {
        return settle(std::span(sorted).subspan(begins[bucket], filled[bucket]), pilots_[bucket]);
    });
}

// Finds the pilot that sends the whole bucket to free slots; false when there is none.
bool PairTable::settle(std::span<const u64> bucket, u8& pilot) {
    constexpr u64 key_bits = ~u64{0} << rank_bits;
    for (int candidate = 0; candidate < 256; ++candidate) {
        size_t n = 0;
        const auto place = [&](size_t i) -> u64& {
            return slots_[place_of(hash_of(bucket[i] & key_bits), static_cast<u64>(candidate))];
        };
        for (; n < bucket.size() && place(n) == empty; ++n) place(n) = bucket[n];
        pilot = static_cast<u8>(candidate);
        if (n == bucket.size()) return true;
        while (n > 0) place(--n) = empty;
    }
    for (const u64 a : bucket) {
        const auto same = [&](u64 b) { return (a & key_bits) == (b & key_bits); };
        LM_CHECK(std::ranges::count_if(bucket, same) == 1, "duplicate merge");
    }
    return false;
}

}  // namespace lm::text
