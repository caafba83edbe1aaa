// SPDX-License-Identifier: Apache-2.0
// The operations of the CUDA backend, one function for each entry of LM_OPS. All enqueue their
// kernels on the compute stream and return; none waits for the GPU.
#pragma once

#include "device/ops.hpp"

namespace lm::cuda::ops {

#define LM_DECLARE(name, Args) void name(device::Context& context, const device::Args& args);
LM_OPS(LM_DECLARE)
#undef LM_DECLARE

}  // namespace lm::cuda::ops
