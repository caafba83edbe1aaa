// SPDX-License-Identifier: Apache-2.0
// One block of threads at a time, as fibers of the calling thread. A thread runs until it must
// wait: at a barrier of the block, or in a function of its warp. When nobody can go on, what keeps
// them apart is told: a thread that left while others wait, lanes of a mask that do not come.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "cuda_runtime.h"

namespace emulator {

// Runs the whole grid. Empty: done; else what went wrong, naming kernel, line, block and thread.
// EMULATED_CUDA_REVERSE=1 runs blocks and threads in the opposite order: a kernel with a missing
// barrier gives other results then.
std::string run_grid(dim3 grid, dim3 block, size_t shared_bytes,
                     const std::function<void()>& thread);

// Forgets the asynchronous copies of the block that has run. Empty: all had been waited for.
std::string unfinished_copies();

}  // namespace emulator
