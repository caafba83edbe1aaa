// SPDX-License-Identifier: Apache-2.0
// The loss scale of fp16 training: a factor on the loss, so that small gradients do not become zero
// (Micikevicius et al. 2018, "Mixed precision training"). The scale changes by the rules of
// Megatron's DynamicGradScaler. The trainer decides whether a step has overflowed, and skips such a
// step.
#pragma once

#include <algorithm>

#include "base/types.hpp"
#include "spec/optimizer_config.hpp"

namespace lm::optim {

// The state that a checkpoint stores, so that a resumed run has the same scales as an uninterrupted
// run.
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
    // Returns the lowest scale that a run may use after overflows. With a fixed scale, returns the
    // smaller of 1 and the fixed scale.
    double lowest() const { return dynamic_ ? config_.min : std::min(1.0, state_.scale); }
    // Call this after each step, including skipped steps. An overflow decrements the hysteresis; if
    // the hysteresis is then 0 or below, the scale is halved, but not below the minimum. After
    // `window` consecutive steps without overflow, the scale is doubled and the hysteresis is reset
    // to its initial value.
    void update(bool overflow);

    const LossScaleState& state() const { return state_; }
    // Sets the state if the scale is dynamic. A fixed scale keeps the value of the flags.
    void restore(const LossScaleState& state);
    // Sets the state, even if the scale is fixed. StepGuard uses this to repeat a step with another
    // scale.
    void set_state(const LossScaleState& state) { state_ = state; }

  private:
    spec::LossScaleConfig config_;
    LossScaleState state_;
    bool dynamic_ = false;
};

}  // namespace lm::optim
