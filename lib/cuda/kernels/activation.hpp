// SPDX-License-Identifier: Apache-2.0
// Activation and bias as separate kernels, for linear layers whose GEMM does not fuse them into a
// cuBLASLt epilogue. Views are bf16|fp16|fp32, one type in each call.
#pragma once

#include <cuda_runtime.h>

#include "device/ops.hpp"

namespace lm::cuda {

// y = activation(x); x and y have the same shape and may be the same memory.
void activate(cudaStream_t stream, device::Activation activation, const device::View& x,
              const device::View& y);
// dx *= activation'(pre), in place; pre and dx have the same shape.
void activate_backward(cudaStream_t stream, device::Activation activation, const device::View& pre,
                       const device::View& dx);
// Copies row [M] to every row of y [N, M].
void repeat_row(cudaStream_t stream, const device::View& row, const device::View& y);

}  // namespace lm::cuda
