// SPDX-License-Identifier: Apache-2.0
// The factors of an AdamW step, which are equal for all elements. They are rounded to fp32 once, so
// that the inner loops of all backends use the same numbers.
#pragma once

#include "device/ops.hpp"

namespace lm::device {

struct AdamWStep {
    float grad_scale, beta1, one_minus_beta1, beta2, one_minus_beta2;
    float correct1, correct2;  // 1 / (1 - beta^t)
    float eps, lr, weight_decay;
};

AdamWStep adamw_step(const AdamW& args);

}  // namespace lm::device
