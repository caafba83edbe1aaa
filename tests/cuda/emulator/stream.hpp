// SPDX-License-Identifier: Apache-2.0
// Streams: queues of work. By default work runs when it is enqueued, which is one order that CUDA
// allows; with EMULATED_CUDA_DELAY=1 it runs as late as CUDA allows: when an event, a wait or a
// synchronisation asks for it. What was ordered by luck alone gives other results then.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cuda_runtime.h"

namespace emulator {

// Work of a stream; device memory can be used while it runs. What it returns becomes the device's
// error, which every later call returns. A library call of the emulator (cuBLASLt, NCCL) uses this
// too.
cudaError_t enqueue(cudaStream_t stream, std::function<cudaError_t()> work);

// Work that waits for others, as a collective does; the work's number in its stream. `ready` begins
// what can be begun and says whether run() would not block. Neither has a window on device memory.
int64_t enqueue_exchange(cudaStream_t stream, std::function<cudaError_t()> run,
                         std::function<bool()> ready);
void run_until(cudaStream_t stream, int64_t number);

// A line to the file EMULATED_CUDA_LOG: what must not come in the middle of a step (memory, NCCL's
// communicators and first operations), and products, by which steps show.
void log(const std::string& line);

// The device's error, or `status`, kept for cudaGetLastError() when there is one.
cudaError_t noted(cudaError_t status);
// Prints what the emulator found, and gives the error that CUDA would: the device is lost.
cudaError_t device_lost(cudaError_t status, const char* what);

}  // namespace emulator
