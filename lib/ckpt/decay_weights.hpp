// SPDX-License-Identifier: Apache-2.0
// Weights of an average of steps that stands for a decay of the learning rate: WSM, "Decay-Free
// Learning Rate Schedule via Checkpoint Merging", arXiv 2507.17634.
#pragma once

#include <vector>

#include "base/types.hpp"

namespace lm::ckpt {

// The decay over the window: linear, 1 - x; minus_sqrt, 1 - sqrt(x), for x from 0 to 1.
enum class DecayStyle { linear, minus_sqrt };

// Returns the weights of steps after `tokens` tokens (ascending, at least two); their sum is 1.
std::vector<double> decay_weights(const std::vector<i64>& tokens, DecayStyle style);

}  // namespace lm::ckpt
