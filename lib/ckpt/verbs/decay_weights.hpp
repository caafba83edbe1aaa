// SPDX-License-Identifier: Apache-2.0
// Weights for averaging steps of a training with a constant learning rate. The average approximates
// a training with a decayed learning rate: WSM, "Decay-Free Learning Rate Schedule via Checkpoint
// Merging", arXiv 2507.17634.
#pragma once

#include <vector>

#include "base/types.hpp"

namespace lm::ckpt {

// The emulated factor of the learning rate at x, where x is 0 at the start of the window and 1 at
// its end. linear: 1 - x; minus_sqrt: 1 - sqrt(x).
enum class EmulatedDecay { linear, minus_sqrt };

// Returns the weight of each step; the sum is 1. tokens[i]: the number of tokens that step i has
// consumed, ascending. At least two steps.
std::vector<double> decay_weights(const std::vector<i64>& tokens, EmulatedDecay style);

}  // namespace lm::ckpt
