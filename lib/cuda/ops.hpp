// SPDX-License-Identifier: Apache-2.0
// The operations of the CUDA backend by name; each family has a file. All only tell the compute
// stream what to do.
#pragma once

#include "device/ops.hpp"

namespace lm::cuda::ops {

#define LM_DECLARE(name, Args) void name(device::Context& context, const device::Args& args);
LM_OPS(LM_DECLARE)
#undef LM_DECLARE

}  // namespace lm::cuda::ops
