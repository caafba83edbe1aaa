// SPDX-License-Identifier: Apache-2.0
// The number of calls, the time and the floating-point operations (FLOPs) of each operation. The
// checked calls of operations add to the OpTimes of their Context, if it has one. On a GPU the time
// is added when the CPU next waits for the GPU, so an OpTimes must not be moved or destroyed before
// this wait.
#pragma once

#include <array>
#include <string_view>

#include "device/ops.hpp"

namespace lm::device {

enum class Op : int {
#define LM_OP_NAME(name, Args) name,
    LM_OPS(LM_OP_NAME)
#undef LM_OP_NAME
        count
};

std::string_view name_of(Op op);

struct OpTime {
    i64 calls = 0;
    double seconds = 0;
    double flops = 0;  // matrix products and attention; 0 for other operations
};

struct OpTimes {
    std::array<OpTime, static_cast<size_t>(Op::count)> ops{};
    OpTime& operator[](Op op) { return ops[static_cast<size_t>(op)]; }
};

}  // namespace lm::device
