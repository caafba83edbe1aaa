// SPDX-License-Identifier: Apache-2.0
// What the flags say about the factor by which fp16 training multiplies the loss.
#pragma once

#include <optional>

#include "base/types.hpp"

namespace lm::spec {

struct LossScaleConfig {
    std::optional<double> fixed;  // --loss-scale; the rest is of the dynamic scale
    double initial = 4294967296.0;
    double min = 1.0;
    i64 window = 1000;   // steps without overflow after which the scale doubles
    i64 hysteresis = 2;  // overflows since the last doubling before the scale halves

    // Throws Error(usage) naming the flag.
    void check() const;
};

}  // namespace lm::spec
