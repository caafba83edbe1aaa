// SPDX-License-Identifier: Apache-2.0
#include "spec/optimizer_config.hpp"

#include <limits>

#include "base/bounds.hpp"
#include "base/error.hpp"
#include "base/problem_list.hpp"

namespace lm::spec {
namespace {

// The smallest positive number of fp16. With a scale of at most half this number, even a gradient
// of 1 rounds to 0.
constexpr double least_scale = 0x1p-24;

void check_scale(std::string_view flag, double value) {
    check_above(flag, value, 0);
    if (value < least_scale) {
        usage_error(
            flag, "{0:g} is less than {1:g}, the smallest positive fp16 number: use at least {1:g}",
            value, least_scale);
    }
    if (value > std::numeric_limits<float>::max()) {
        usage_error(flag, "{:g} exceeds the range of fp32: use at most 3.4e38", value);
    }
}

}  // namespace

void AdamWConfig::check() const {
    check_all([&] { check_above("--adam-eps", eps, 0); },
              [&] { check_below_one("--adam-beta1", beta1); },
              [&] { check_below_one("--adam-beta2", beta2); },
              [&] { check_at_least("--weight-decay", weight_decay, 0); },
              [&] { check_at_least("--clip-grad", clip_grad, 0); });
}

void LossScaleConfig::check() const {
    if (fixed) return check_scale("--loss-scale", *fixed);
    check_all([&] { check_scale("--initial-loss-scale", initial); },
              [&] { check_scale("--min-loss-scale", min); },
              [&] {
                  if (initial < min)
                      usage_error("--initial-loss-scale", "{} is less than --min-loss-scale {}",
                                  initial, min);
              },
              [&] { check_at_least("--loss-scale-window", window, 1); },
              [&] { check_at_least("--hysteresis", hysteresis, 1); });
}

}  // namespace lm::spec
