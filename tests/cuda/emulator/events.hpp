// SPDX-License-Identifier: Apache-2.0
// Events that tests look for: the log of EMULATED_CUDA_LOG, and the loading of code.
#pragma once

#include <string>

#include "cuda_runtime.h"

namespace emulator {

// Writes a line to the file $EMULATED_CUDA_LOG.PID, where PID is the process id. The log has the
// events that must not occur within a training step (allocations, NCCL communicators and
// connections, searches for algorithms, loading of code), and the products and kernel launches,
// which show the steps.
void log(const std::string& line);

// With EMULATED_CUDA_LAUNCHES=1, logs "launch ADDRESS THREADS BYTES" for a kernel: the kernel's
// address in its library, the threads of a block, and the dynamic shared memory of a block.
void log_launch(const cudaLaunchConfig_t& config, const void* kernel);

// With EMULATED_CUDA_LOADING=1, the first call of a device for each `code` waits until all streams
// of that device are empty, as the driver may when a library loads the code of an algorithm.
void load(const std::string& code);

}  // namespace emulator
