// SPDX-License-Identifier: Apache-2.0
#include "optim/loss_scaler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"

namespace lm::optim {

LossScaler::LossScaler(const spec::LossScaleConfig& config)
    : config_(config),
      state_{.scale = config.fixed.value_or(config.initial), .hysteresis_left = config.hysteresis},
      dynamic_(!config.fixed) {
    config.check();
}

void LossScaler::update(bool overflow) {
    if (!dynamic_) return;
    if (overflow) {
        state_.steps_since_overflow = 0;
        if (--state_.hysteresis_left <= 0) {
            state_.scale = std::max(state_.scale / 2, config_.min);
        }
        return;
    }
    if (++state_.steps_since_overflow < config_.window) return;
    state_.steps_since_overflow = 0;
    state_.hysteresis_left = config_.hysteresis;
    state_.scale *= 2;
}

void LossScaler::restore(const LossScaleState& state) {
    if (dynamic_) state_ = state;
}

}  // namespace lm::optim
