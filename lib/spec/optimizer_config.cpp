// SPDX-License-Identifier: Apache-2.0
#include "spec/optimizer_config.hpp"

#include <cmath>
#include <limits>

#include "base/error.hpp"

namespace lm::spec {
namespace {

// The smallest positive number of fp16. With a smaller scale, even a gradient of 1 becomes 0.
constexpr double least_scale = 0x1p-24;

void check_scale(std::string_view flag, double value) {
    if (!(value > 0.0) || !std::isfinite(value)) {
        usage_error(flag, "{} is not a positive number", value);
    }
    if (value < least_scale) {
        usage_error(flag, "{:g} rounds gradients to 0 in fp16: use at least {:g}", value,
                    least_scale);
    }
    if (value > std::numeric_limits<float>::max()) {
        usage_error(flag, "{:g} exceeds the range of fp32: use at most 3.4e38", value);
    }
}

}  // namespace

void AdamWConfig::check() const {
    const auto below_one = [](std::string_view flag, double value) {
        if (!(value >= 0.0 && value < 1.0)) usage_error(flag, "{} is not in [0, 1)", value);
    };
    const auto not_negative = [](std::string_view flag, double value) {
        if (!(value >= 0.0)) usage_error(flag, "{} is negative", value);
    };
    if (!(eps > 0)) usage_error("--adam-eps", "{} is not positive", eps);
    below_one("--adam-beta1", beta1);
    below_one("--adam-beta2", beta2);
    not_negative("--weight-decay", weight_decay);
    not_negative("--clip-grad", clip_grad);
}

void LossScaleConfig::check() const {
    if (fixed) return check_scale("--loss-scale", *fixed);
    check_scale("--initial-loss-scale", initial);
    check_scale("--min-loss-scale", min);
    if (initial < min) {
        usage_error("--initial-loss-scale", "{} is less than --min-loss-scale {}", initial, min);
    }
    if (window < 1) usage_error("--loss-scale-window", "must be at least 1, but is {}", window);
    if (hysteresis < 1) usage_error("--hysteresis", "must be at least 1, but is {}", hysteresis);
}

}  // namespace lm::spec
