// SPDX-License-Identifier: Apache-2.0
// The operations of the CPU backend, one function of each namespace for each entry of LM_OPS:
// `reference` defines the operation by plain loops, `fast` is the version used in training. The
// source file of an operation has both.
#pragma once

#include "device/ops.hpp"

namespace lm::cpu {

namespace reference {
#define LM_DECLARE(name, Args) void name(device::Context& context, const device::Args& args);
LM_OPS(LM_DECLARE)
}  // namespace reference

namespace fast {
LM_OPS(LM_DECLARE)
#undef LM_DECLARE
}  // namespace fast

}  // namespace lm::cpu
