// SPDX-License-Identifier: Apache-2.0
// What a run is going to do, for people, before it does it.
#pragma once

#include <string>

#include "train/run_config.hpp"

namespace lm::train {

// Lines: parameters, schedule, learning rate, data and epochs, memory, checkpoints. The
// data has been opened and checked by then.
std::string describe_plan(const RunConfig& config, const data::DataSets& data);

}  // namespace lm::train
