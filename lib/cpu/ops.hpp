// SPDX-License-Identifier: Apache-2.0
// The operations of the CPU backend by name: plain loops that say what each one means, and the fast
// versions. Each op's file holds both.
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
