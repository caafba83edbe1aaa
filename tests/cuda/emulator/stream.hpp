// SPDX-License-Identifier: Apache-2.0
// Streams: queues of work. By default work runs when it is enqueued, which is one order that CUDA
// allows. With EMULATED_CUDA_DELAY=1 it runs as late as CUDA allows: when an event, a wait or a
// synchronization needs it. Code that depends on a missing synchronization then computes different
// results.
#pragma once

#include <cstdint>
#include <functional>

#include "cuda_runtime.h"

namespace emulator {

// Enqueues work in a stream. Device memory is accessible while the work runs. An error that the
// work returns becomes the device's error, which every later call returns.
cudaError_t enqueue(cudaStream_t stream, std::function<cudaError_t()> work);

// Enqueues work that waits for other ranks, such as a collective, and returns its number in the
// stream. `ready` starts the work as far as possible and returns true when run() would not block.
// Device memory is not accessible in run() and ready().
int64_t enqueue_exchange(cudaStream_t stream, std::function<cudaError_t()> run,
                         std::function<bool()> ready);
void run_until(cudaStream_t stream, int64_t number);

// Returns the device's error or else `status`, and stores an error for cudaGetLastError().
cudaError_t noted(cudaError_t status);
// Prints an error that the emulator found, and returns the CUDA error that all later calls for the
// lost device return.
cudaError_t device_lost(cudaError_t status, const char* what);

}  // namespace emulator
