// SPDX-License-Identifier: Apache-2.0
// A keyed bijection of [0, n): the shuffled order of an epoch without a table. It is a Feistel
// network on a grid of about sqrt(n) x sqrt(n) cells, whose two coordinates are shifted in turn
// (FE2 of Bellare, Ristenpart, Rogaway, Stegers, "Format-preserving encryption", SAC 2009). The
// network is repeated until the result is in [0, n). It is not cryptographic.
#pragma once

#include <array>

#include "base/types.hpp"

namespace lm::data {

class Permutation {
  public:
    // Requires n >= 1. The permutation of a given (n, key) must never change, because resumed runs
    // rely on it.
    Permutation(i64 n, u64 key);

    // Returns the image of `index` in [0, n). O(1), without memory.
    i64 operator()(i64 index) const;

  private:
    static constexpr int rounds = 8;
    u64 n_, rows_, columns_;
    std::array<u64, rounds> keys_;
};

// Maps 64 random bits to [0, n). Requires n >= 1.
u64 scale_to(u64 random, u64 n);

}  // namespace lm::data
