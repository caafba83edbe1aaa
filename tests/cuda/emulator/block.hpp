// SPDX-License-Identifier: Apache-2.0
// Runs one block of threads at a time, as fibers of the calling thread. A thread runs until it must
// wait, at a barrier of the block or in a warp function. When no thread can continue, the reason is
// reported: a thread that returned while others wait, or lanes of a mask that do not arrive.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "cuda_runtime.h"

namespace emulator {

struct GridResult {
    std::string problem;  // empty, or an error with kernel, line, block and thread
    bool illegal_access = false;
};

// Runs the whole grid.
// EMULATED_CUDA_REVERSE=1 runs blocks and threads in reverse order, which changes the results of a
// kernel with a missing barrier.
GridResult run_grid(dim3 grid, dim3 block, size_t shared_bytes,
                    const std::function<void()>& thread);

// Drops the asynchronous copies of the block that has run. Returns an empty string when the kernel
// had waited for all of them, else an error.
std::string unfinished_copies();

}  // namespace emulator
