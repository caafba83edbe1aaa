// SPDX-License-Identifier: Apache-2.0
// The loss scale of fp16 training: the factor on the loss that keeps small gradients from becoming
// zero (Micikevicius et al. 2018, "Mixed precision training"). It changes by the rules of
// Megatron's DynamicGradScaler. The trainer decides whether a step overflowed, and skips such a
// step.
#pragma once

#include <algorithm>

#include "base/types.hpp"
#include "spec/optimizer_config.hpp"

namespace lm::optim {

// The state that a checkpoint stores, so that a resumed run has the scales of an uninterrupted one.
struct LossScaleState {
    double scale = 1.0;
    i64 steps_since_overflow = 0;
    i64 hysteresis_left = 0;
    bool operator==(const LossScaleState&) const = default;
};

class LossScaler {
  public:
    LossScaler() = default;  // constant scale 1: fp32 and bf16
    explicit LossScaler(const spec::LossScaleConfig& config);

    double scale() const { return state_.scale; }
    bool dynamic() const { return dynamic_; }
    // Returns the lowest scale to which overflows can lead; with a fixed scale 1, or the fixed
    // scale where that is lower.
    double lowest() const { return dynamic_ ? config_.min : std::min(1.0, state_.scale); }
    // Call this after each step, also after a skipped one. An overflow decrements the hysteresis;
    // at 0 or below, the scale is halved, too. After `window` steps without overflow the scale is
    // doubled and the hysteresis restored.
    void update(bool overflow);

    const LossScaleState& state() const { return state_; }
    // Sets the state of a dynamic scale. A fixed scale keeps the value that the flags set.
    void restore(const LossScaleState& state);
    // Sets the state, also of a fixed scale: to repeat a step with another scale.
    void replace(const LossScaleState& state) { state_ = state; }

  private:
    spec::LossScaleConfig config_;
    LossScaleState state_;
    bool dynamic_ = false;
};

}  // namespace lm::optim
