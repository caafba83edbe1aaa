// SPDX-License-Identifier: Apache-2.0
// The weighted average of several checkpoints' weights (arXiv 1803.05407, section 3.2, and
// 2203.05482, section 2: equal weights).
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/named.hpp"
#include "ckpt/format/checkpoint.hpp"
#include "ckpt/history/save.hpp"

namespace lm::ckpt {

struct MergeSource {
    Checkpoint checkpoint;
    double weight = 1;
};

// Throws Error(usage) when two checkpoints differ in the model configuration or the tokenizer; the
// message names the first such field. Dropout, initialization and sequence length may differ.
void check_same_architecture(const Checkpoint& a, const Checkpoint& b);

struct MergeOptions {
    // Element type of the result. Default: the type of the sources, or fp32 when their types
    // differ.
    std::optional<DType> dtype;
    std::string command_line;
    std::function<void(i64 elements)> progress;  // gets the number of averaged elements; may be
                                                 // empty
};

// Saves sum(weight * tensor) / sum(weight) as a step without optimizer state in the existing
// `directory`. Uses the masters of a checkpoint that has masters, and sums in fp64. Counters,
// tokenizer and the trainer's state come from the source with the most iterations. The memory that
// it uses does not grow with the size of the tensors. The sources must have one architecture, and
// the sum of their weights must be positive. Throws Error(failure) naming the tensor when a number
// is not finite or exceeds the range of the result's type.
SaveResult merge(const std::vector<MergeSource>& sources, const MergeOptions& options,
                 const std::string& directory);

// Weights for averaging steps of a training with a constant learning rate. The average approximates
// a training with a decayed learning rate: WSM, "Decay-Free Learning Rate Schedule via Checkpoint
// Merging", arXiv 2507.17634.
//
// The emulated factor of the learning rate at x, where x is 0 at the start of the window and 1 at
// its end. linear: 1 - x; minus_sqrt: 1 - sqrt(x).
enum class EmulatedDecay { linear, minus_sqrt };
inline constexpr std::array emulated_decays{Named{EmulatedDecay::linear, "linear"},
                                            Named{EmulatedDecay::minus_sqrt, "minus-sqrt"}};

// Returns the weight of each step; the sum is 1. tokens[i]: the number of tokens that step i has
// consumed, ascending. At least two steps.
std::vector<double> decay_weights(const std::vector<i64>& tokens, EmulatedDecay style);

}  // namespace lm::ckpt
