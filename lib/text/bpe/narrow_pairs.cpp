// SPDX-License-Identifier: Apache-2.0
#include "text/bpe/narrow_pairs.hpp"

#include <algorithm>

#include "text/bpe/perfect_hash.hpp"

namespace lm::text {

NarrowPairs::NarrowPairs(std::span<const u32> keys)
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
