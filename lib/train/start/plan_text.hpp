// SPDX-License-Identifier: Apache-2.0
// The plan of a run as text, printed before the run starts.
#pragma once

#include <string>

#include "train/config/run_config.hpp"

namespace lm::train {

// Returns lines with parameters, ranks, schedule, data, memory and checkpoints. `data`: the opened
// data of the run.
std::string describe_plan(const RunConfig& config, const data::DataSets& data);

}  // namespace lm::train
