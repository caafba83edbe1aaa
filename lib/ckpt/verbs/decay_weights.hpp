// SPDX-License-Identifier: Apache-2.0
// Weights for averaging steps of a training with a constant learning rate. The average approximates
// the result of a decayed learning rate: WSM, "Decay-Free Learning Rate Schedule via Checkpoint
// Merging", arXiv 2507.17634.
#pragma once

#include <vector>

#include "base/types.hpp"

namespace lm::ckpt {

// The factor of the learning rate at x, from 0 at the start of the window to 1 at its end: linear,
// 1 - x; minus_sqrt, 1 - sqrt(x).
enum class EmulatedDecay { linear, minus_sqrt };

// Returns the weight of each step; the sum is 1. tokens[i] is the consumed tokens of step i: at
// least two steps, ascending.
std::vector<double> decay_weights(const std::vector<i64>& tokens, EmulatedDecay style);

}  // namespace lm::ckpt
