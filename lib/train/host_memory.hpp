// SPDX-License-Identifier: Apache-2.0
// Checks that a run on CPUs fits into the memory of its hosts.
#pragma once

#include "base/types.hpp"
#include "train/run_config.hpp"

namespace lm::train {

// Throws Error(usage) when `ranks_here` ranks of the run need more memory than this host has left,
// including the limit of its control group. Does nothing for a GPU. When only some ranks of a
// pipeline are here, they are assumed to be of the stage with the least memory.
void check_host_memory(const RunConfig& config, i64 ranks_here);

}  // namespace lm::train
