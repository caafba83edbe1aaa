// SPDX-License-Identifier: Apache-2.0
// The dropout mask, defined exactly so that every backend computes the same mask. Element e of
// sample s at (layer, site) is dropped if its 16-bit random number is below
//     threshold = round(p * 65536)
// Kept values are multiplied by 1 / (1 - threshold / 65536), so that the expectation is exact for
// the rounded probability. The random number is 16 bits of one Philox4x32-10 block:
//     block = philox(key, counter_lo = e / 8, counter_hi = s)
//     word = block[(e % 8) / 2];  number = e even ? word & 0xffff : word >> 16
//     key = mix(mix(seed, "dropout" as ASCII, big-endian), layer * 16 + site)
// where layer * 16 + site is a signed 64-bit number. The mask depends on nothing else, in
// particular not on the layout or on threads.
#pragma once

#include <cmath>

#include "base/rng.hpp"
#include "device/ops.hpp"

namespace lm::device {

class DropoutMask {
  public:
    explicit DropoutMask(const Dropout& dropout)
        : DropoutMask(dropout.p, dropout.seed, dropout.layer, dropout.site, dropout.scale) {}
    DropoutMask(double p, u64 seed, i32 layer, i32 site, double scale = 1.0)
        : key_(mix(mix(seed, 0x64726f706f7574ULL), static_cast<u64>(i64{layer} * 16 + site))),
          threshold_(static_cast<u32>(std::lround(p * 65536.0))),
          scale_(scale) {}

    u64 key() const { return key_; }
    u32 threshold() const { return threshold_; }
    double scale() const { return scale_ / (1.0 - threshold_ / 65536.0); }

    // Returns the factor of element `e` of sample `s`: 0 or scale().
    double factor(i64 s, i64 e) const {
        const auto element = static_cast<u64>(e);
        const Philox4 block = philox(key_, element / 8, static_cast<u64>(s));
        const u32 word = block[element % 8 / 2];
        const u32 number = element % 2 == 0 ? word & 0xffffU : word >> 16;
        return number >= threshold_ ? scale() : 0.0;
    }

  private:
    u64 key_;
    u32 threshold_;
    double scale_;
};

}  // namespace lm::device
