// SPDX-License-Identifier: Apache-2.0
// Who holds what of the model, for people: one line a pipeline stage and one a tensor rank, however
// many ranks there are.
#pragma once

#include <string>
#include <vector>

#include "train/run_config.hpp"

namespace lm::train {

struct LayoutLine {
    std::string what;  // "stage 0"
    std::string text;  // "ranks 0-3 of 8: embedding, layers 0-5; 1.2 GiB"
};

// Layers, heads and rows count from 0, as in tensor names. The bytes are those of the fullest
// tensor rank.
std::vector<LayoutLine> describe_layout(const RunConfig& config);

}  // namespace lm::train
