// SPDX-License-Identifier: Apache-2.0
// Shape and dtype checks of every operation. A mismatch is a bug of this program (exit 70); the
// message names the operation and the argument and prints the expected and the actual shape and
// dtype.
#pragma once

#include "device/ops.hpp"

namespace lm::device {

#define LM_OP_CHECK(name, Args) void check(const Args& args);
LM_OPS(LM_OP_CHECK)
#undef LM_OP_CHECK

}  // namespace lm::device
