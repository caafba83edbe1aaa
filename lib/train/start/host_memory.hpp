// SPDX-License-Identifier: Apache-2.0
// Checks that the part of a run that is in host memory fits into the memory of this host.
#pragma once

#include "base/types.hpp"
#include "train/config/run_config.hpp"

namespace lm::train {

// Throws Error(usage) when the `ranks_here` ranks on this host need more memory than the host, or
// the control group of this process, has left. Throws Error(failure) when `ulimit -v` leaves too
// little address space for a run on CPUs. With GPUs, counts only the buffers of asynchronous saves.
// When only some ranks of the run are on this host, assumes that they all belong to the stage that
// needs the least memory.
void check_host_memory(const RunConfig& config, i64 ranks_here);

}  // namespace lm::train
