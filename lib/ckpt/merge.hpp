// SPDX-License-Identifier: Apache-2.0
// The weighted average of several checkpoints' weights (arXiv 1803.05407, section 3.2, and
// 2203.05482, section 2: equal weights).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ckpt/checkpoint.hpp"
#include "ckpt/save.hpp"

namespace lm::ckpt {

struct MergeSource {
    Checkpoint checkpoint;
    double weight = 1;
};

// Throws Error(usage) that names the first field of the model in which two checkpoints differ, or
// the tokenizer. Dropout, initialisation and sequence length do not matter.
void check_same_architecture(const Checkpoint& a, const Checkpoint& b);

struct MergeOptions {
    std::optional<DType>
        dtype;  // of the result; else that of all sources, or fp32 when they differ
    std::string command_line;
    std::function<void(i64 elements)> progress;  // averaged so far; may be empty
};

// Saves sum(weight * tensor) / sum(weight), of masters where a checkpoint has them, summed up in
// double precision, as a step without optimizer state in `directory`, which must be there. Its
// counters, tokenizer and trainer's state are those of the source with the most iterations. Tens of
// megabytes are in memory at a time, whatever the tensors' sizes. Needs sources of one architecture
// and weights of a positive sum; throws Error(failure) naming the tensor of a number that is not
// finite, or that the result's type cannot hold.
SaveResult merge(const std::vector<MergeSource>& sources, const MergeOptions& options,
                 const std::string& directory);

}  // namespace lm::ckpt
