// SPDX-License-Identifier: Apache-2.0
// Activation and bias as separate kernels, for linear layers whose GEMM does not fuse them into a
// cuBLASLt epilogue. Views are bf16|fp16|fp32, one type in each call.
#pragma once

#include <cuda_runtime.h>

#include "device/ops.hpp"

namespace lm::cuda {

// y = activation(x). x, y: [N, F] of the same dtype, fp32, bf16 or fp16; they may be the same
// memory.
void activate(cudaStream_t stream, device::Activation activation, const device::View& x,
              const device::View& y);
// dx *= activation'(pre), in place. pre, dx: [N, F] of the same dtype, fp32, bf16 or fp16.
void activate_backward(cudaStream_t stream, device::Activation activation, const device::View& pre,
                       const device::View& dx);
// Copies `row` to every row of y. row: [F], y: [N, F] of the same dtype, fp32, bf16 or fp16.
void repeat_row(cudaStream_t stream, const device::View& row, const device::View& y);

}  // namespace lm::cuda
