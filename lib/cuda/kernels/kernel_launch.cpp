// SPDX-License-Identifier: Apache-2.0
// The errors of kernel_launch.cuh, which nvcc cannot compile. Some test programs launch kernels
// without the rest of the plugin.
#include "cuda/kernels/kernel_launch.cuh"

#include <cuda_runtime.h>

#include "base/error.hpp"
#include "base/units.hpp"

namespace lm::cuda {

// The shared memory of a block is at most 99 KiB on GPUs of capability 8.6, 8.9 and 12.0, and 163
// KiB or more on data center GPUs.
void too_little_shared_memory(size_t bytes) {
    cudaGetLastError();  // clears the error, because this function reports it
    run_error("cuda",
              "an operation needs {} of shared memory for each block, more than this GPU has: use "
              "attention heads of at most 128 elements",
              human_size(static_cast<i64>(bytes)));
}

void no_such_type(DType dtype) {
    fail(Exit::usage, name_of(dtype), "operations on a GPU support fp32, bf16 and fp16 only");
}

}  // namespace lm::cuda
