// SPDX-License-Identifier: Apache-2.0
// Checks that a run on CPUs fits into the memory of its hosts.
#pragma once

#include "base/types.hpp"
#include "train/resolve/run_config.hpp"

namespace lm::train {

// Throws Error(usage) when `ranks_here` ranks of the run need more memory than this host and the
// process's control group have left. Throws Error(failure) when `ulimit -v` leaves too little
// address space. With GPUs, only the buffers of asynchronous saves count. When only some ranks of
// the run are on this host, the check assumes that they belong to the stage that needs the least
// memory.
void check_host_memory(const RunConfig& config, i64 ranks_here);

}  // namespace lm::train
