// SPDX-License-Identifier: Apache-2.0
// Shape and type checks of every operation; a mismatch is a bug of ours (exit 70) naming the op.
#pragma once

#include "device/ops.hpp"

namespace lm::device {

#define LM_OP_CHECK(name, Args) void check(const Args& args);
LM_OPS(LM_OP_CHECK)
#undef LM_OP_CHECK

}  // namespace lm::device
