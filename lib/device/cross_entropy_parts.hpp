// SPDX-License-Identifier: Apache-2.0
// These functions return the arguments of the single operations that the operation cross_entropy
// combines.
#pragma once

#include "device/ops.hpp"

namespace lm::device {

inline CrossEntropyStats stats_of(const CrossEntropy& a) {
    return {a.logits, a.targets, 0, a.n_valid, a.row_max, a.row_sum, a.target_logit};
}
inline CrossEntropyLoss loss_of(const CrossEntropy& a) {
    return {a.row_max, a.row_sum, a.target_logit, a.losses};
}
inline CrossEntropyBackward backward_of(const CrossEntropy& a) {
    return {a.logits, a.targets, 0, a.n_valid, a.row_max, a.row_sum, a.weight, a.grad_scale};
}

}  // namespace lm::device
