// SPDX-License-Identifier: Apache-2.0
// A keyed bijection of [0, n): the shuffled order of an epoch without a table. A Feistel network on
// a grid of about sqrt(n) x sqrt(n) cells whose two coordinates are shifted in turn (FE2 of
// Bellare, Ristenpart, Rogaway, Stegers, "Format-preserving encryption", SAC 2009), walked until
// the result lies inside [0, n). Not for secrets; for orders that look random.
#pragma once

#include <array>

#include "base/types.hpp"

namespace lm::data {

class Permutation {
  public:
    // Requires n >= 1. The same (n, key) is the same permutation for ever: checkpoints rely on it.
    Permutation(i64 n, u64 key);

    // Where `index` in [0, n) goes. O(1), no memory.
    i64 operator()(i64 index) const;

  private:
    static constexpr int rounds = 8;
    u64 n_, rows_, columns_;
    std::array<u64, rounds> keys_;
};

// A value in [0, n) from 64 random bits; n >= 1.
u64 scale_to(u64 random, u64 n);

}  // namespace lm::data
