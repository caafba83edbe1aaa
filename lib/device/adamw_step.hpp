// SPDX-License-Identifier: Apache-2.0
// The factors of an AdamW step, which are the same for all elements. This header rounds them to
// fp32, so that the inner loops of all backends use the same numbers.
#pragma once

#include <cmath>

#include "device/ops.hpp"

namespace lm::device {

struct AdamWStep {
    float grad_scale, beta1, one_minus_beta1, beta2, one_minus_beta2;
    float correct1, correct2;  // 1 / (1 - beta1^t), 1 / (1 - beta2^t)
    float eps, lr, weight_decay;
};

inline AdamWStep adamw_step(const AdamW& a) {
    const auto t = static_cast<double>(a.step);
    return {.grad_scale = static_cast<float>(a.grad_scale),
            .beta1 = static_cast<float>(a.config.beta1),
            .one_minus_beta1 = static_cast<float>(1.0 - a.config.beta1),
            .beta2 = static_cast<float>(a.config.beta2),
            .one_minus_beta2 = static_cast<float>(1.0 - a.config.beta2),
            .correct1 = static_cast<float>(1.0 / (1.0 - std::pow(a.config.beta1, t))),
            .correct2 = static_cast<float>(1.0 / (1.0 - std::pow(a.config.beta2, t))),
            .eps = static_cast<float>(a.config.eps),
            .lr = static_cast<float>(a.lr),
            .weight_decay = static_cast<float>(a.config.weight_decay)};
}

}  // namespace lm::device
