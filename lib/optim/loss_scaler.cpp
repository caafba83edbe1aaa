// SPDX-License-Identifier: Apache-2.0
#include "optim/loss_scaler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"

namespace lm::optim {

namespace {

// Below fp16's smallest number, a loss gradient of 1 and all that is smaller would vanish.
constexpr double least_scale = 0x1p-24;

void check_scale(std::string_view flag, double value) {
    if (!(value > 0.0) || !std::isfinite(value)) {
        usage_error(flag, "{} is not a positive number", value);
    }
    if (value < least_scale) {
        usage_error(flag, "{:g} leaves nothing of a gradient in fp16: at least {:g}", value,
                    least_scale);
    }
    if (value > std::numeric_limits<float>::max()) {
        usage_error(flag, "{:g} is more than fp32 holds: at most 3.4e38", value);
    }
}

}  // namespace

void LossScaleConfig::check() const {
    if (fixed) return check_scale("--loss-scale", *fixed);
    check_scale("--initial-loss-scale", initial);
    check_scale("--min-loss-scale", min);
    if (initial < min) {
        usage_error("--initial-loss-scale", "{} is less than --min-loss-scale {}", initial, min);
    }
    if (window < 1) usage_error("--loss-scale-window", "{} is not at least 1", window);
    if (hysteresis < 1) usage_error("--hysteresis", "{} is not at least 1", hysteresis);
}

LossScaler::LossScaler(const LossScaleConfig& config)
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
