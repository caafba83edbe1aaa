// SPDX-License-Identifier: Apache-2.0
// Perfect hashing by pilots (Fox, Chen and Heath, SIGIR 1992; Pibiri and Trani, "PTHash", SIGIR
// 2021). Keys are hashed into small buckets. A pilot is a small number that changes the hash of a
// bucket's keys. Each bucket gets the first pilot that maps all its keys to free slots.
#pragma once

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "base/types.hpp"

namespace lm::text {

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

}  // namespace lm::text
