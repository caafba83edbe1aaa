// SPDX-License-Identifier: Apache-2.0
// Describes the part of the model on each rank, for the plan of a run: one line for each pipeline
// stage and one for each tensor rank.
#pragma once

#include <string>
#include <vector>

#include "train/config/run_config.hpp"

namespace lm::train {

struct LayoutLine {
    std::string what;  // label: "stage 0"
    std::string text;  // "ranks 0-3 of 8: embedding, layers 0-5; 1.2 GiB"
};

// Returns the lines of the layout. Layers, heads and rows count from 0, as in tensor names. The
// line of a stage states the size of the largest memory plan among its tensor ranks.
std::vector<LayoutLine> describe_layout(const RunConfig& config);

}  // namespace lm::train
