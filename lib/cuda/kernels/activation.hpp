// SPDX-License-Identifier: Apache-2.0
// What linear layers do around their products when cuBLASLt does not.
#pragma once

#include <cuda_runtime.h>

#include "device/ops.hpp"

namespace lm::cuda {

// y = activation(x)
void activate(cudaStream_t stream, device::Activation activation, const device::View& x,
              const device::View& y);
// dx *= activation'(pre)
void activate_backward(cudaStream_t stream, device::Activation activation, const device::View& pre,
                       const device::View& dx);
// Every row of y[N, M] = row[M].
void repeat_row(cudaStream_t stream, const device::View& row, const device::View& y);

}  // namespace lm::cuda
