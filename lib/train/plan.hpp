// SPDX-License-Identifier: Apache-2.0
// What a run is going to do, for people, before it does it.
#pragma once

#include "train/run_config.hpp"

namespace lm::train {

// Lines on stderr: parameters, schedule, learning rate, data and epochs, memory, checkpoints. The
// data has been opened and checked by then.
void print_plan(const RunConfig& config, const data::DataSets& data);

}  // namespace lm::train
