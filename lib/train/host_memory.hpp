// SPDX-License-Identifier: Apache-2.0
// Whether the plan of a run on CPUs fits into the memory of its hosts.
#pragma once

#include "base/types.hpp"
#include "train/run_config.hpp"

namespace lm::train {

// Throws Error(usage) with the numbers when `ranks_here` ranks of the run are too many for the
// memory that this host has left (its control group's limit counts); never for a GPU. Ranks of the
// stage that needs least are assumed when only some of a pipeline's are here.
void check_host_memory(const RunConfig& config, i64 ranks_here);

}  // namespace lm::train
