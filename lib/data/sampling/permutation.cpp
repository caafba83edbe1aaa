// SPDX-License-Identifier: Apache-2.0
#include "data/sampling/permutation.hpp"

#include "base/error.hpp"
#include "base/rng.hpp"

namespace lm::data {
namespace {

u64 ceil_sqrt(u64 n) {
    u64 low = 1;
    u64 high = u64{1} << 32;
    while (low < high) {
        const u64 middle = low + (high - low) / 2;
        if (middle * middle >= n) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

}  // namespace

// Returns the upper half of the product random * n (Lemire, "Fast random integer generation in an
// interval", 2019).
u64 scale_to(u64 random, u64 n) {
    return static_cast<u64>((static_cast<unsigned __int128>(random) * n) >> 64);
}

Permutation::Permutation(i64 n, u64 key) : n_(static_cast<u64>(n)) {
    LM_CHECK(n >= 1 && n < (i64{1} << 62), "expected 1 to 2^62 - 1 values, got {}", n);
    rows_ = ceil_sqrt(n_);
    columns_ = (n_ + rows_ - 1) / rows_;
    for (size_t r = 0; r < keys_.size(); ++r) keys_[r] = mix(key, r);
}

i64 Permutation::operator()(i64 index) const {
    LM_CHECK(index >= 0 && static_cast<u64>(index) < n_, "expected an index below {}, got {}", n_,
             index);
    u64 x = static_cast<u64>(index);
    // Cycle walking: while the result is n or above, it is permuted once more. The network is a
    // bijection of fewer than n + rows_ cells, and `index` is below n, so the loop always reaches a
    // value below n.
    do {
        u64 row = x / columns_;
        u64 column = x % columns_;
        for (size_t r = 0; r < keys_.size(); r += 2) {
            row = (row + scale_to(mix(keys_[r], column), rows_)) % rows_;
            column = (column + scale_to(mix(keys_[r + 1], row), columns_)) % columns_;
        }
        x = row * columns_ + column;
    } while (x >= n_);
    return static_cast<i64>(x);
}

}  // namespace lm::data
