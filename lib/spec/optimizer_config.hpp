// SPDX-License-Identifier: Apache-2.0
// The settings of the optimizer: AdamW, gradient clipping, and the loss scale of fp16 training.
#pragma once

#include <optional>

#include "base/types.hpp"

namespace lm::spec {

struct AdamWConfig {
    double beta1 = 0.9;
    double beta2 = 0.999;
    double eps = 1e-8;
    double weight_decay = 0.01;
    double clip_grad = 1.0;  // largest global gradient norm; 0: no clipping

    // Throws Error(usage) naming the flag whose value is invalid.
    void check() const;
};

// The factor by which fp16 training multiplies the loss.
struct LossScaleConfig {
    // --loss-scale. nullopt: the scale is dynamic, and the other members control it.
    std::optional<double> fixed;
    double initial = 4294967296.0;
    double min = 1.0;
    i64 window = 1000;  // the scale doubles after this many steps without an overflow
    // Overflows are counted from the last doubling of the scale. Overflow number `hysteresis` and
    // each later overflow halve the scale.
    i64 hysteresis = 2;

    // Throws Error(usage) naming the flag whose value is invalid.
    void check() const;
};

}  // namespace lm::spec
