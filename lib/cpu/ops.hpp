// SPDX-License-Identifier: Apache-2.0
// The operations of the CPU backend. Each entry of LM_OPS has a function in both namespaces:
// `reference` defines the operation by plain loops, `fast` is the version used in training. Both
// functions of an operation are in the same source file.
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
