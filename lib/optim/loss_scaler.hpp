// SPDX-License-Identifier: Apache-2.0
// The factor by which fp16 training multiplies the loss, so that small gradients do not vanish
// (Micikevicius et al. 2018, "Mixed precision training"). Moved as Megatron's DynamicGradScaler
// does; what to do about a step that overflowed is the trainer's.
#pragma once

#include "base/types.hpp"
#include "spec/optimizer_config.hpp"

namespace lm::optim {

// What a checkpoint keeps, so that a resumed run scales as the undisturbed one.
struct LossScaleState {
    double scale = 1.0;
    i64 steps_since_overflow = 0;
    i64 hysteresis_left = 0;
    bool operator==(const LossScaleState&) const = default;
};

class LossScaler {
  public:
    LossScaler() = default;  // scale 1 for ever: fp32 and bf16
    explicit LossScaler(const spec::LossScaleConfig& config);

    double scale() const { return state_.scale; }
    bool dynamic() const { return dynamic_; }
    // After each step, skipped ones included. An overflow uses up hysteresis and halves the scale
    // once none is left; only a doubling restores hysteresis.
    void update(bool overflow);

    const LossScaleState& state() const { return state_; }
    // A fixed scale stays what the flags say.
    void restore(const LossScaleState& state);

  private:
    spec::LossScaleConfig config_;
    LossScaleState state_;
    bool dynamic_ = false;
};

}  // namespace lm::optim
