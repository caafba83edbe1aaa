// SPDX-License-Identifier: Apache-2.0
// The weighted average of several checkpoints' weights (arXiv 1803.05407, section 3.2, and
// 2203.05482, section 2: equal weights).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

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

}  // namespace lm::ckpt
