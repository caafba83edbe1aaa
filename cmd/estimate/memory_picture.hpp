// SPDX-License-Identifier: Apache-2.0
// The picture of lm-estimate memory: the bytes of a rank of each pipeline stage as stacked bars.
#pragma once

#include <optional>
#include <span>

#include "cost/memory.hpp"
#include "picture.hpp"

namespace lm::estimate {

struct StageMemory {
    cost::MemoryPlan plan;
    i64 nccl = 0;  // bytes
};

// Returns bars for the parts of the plan, NCCL and `allowance`, and a line at `limit` if given (all
// in bytes). So a rank fits when its bar ends below the line.
Picture memory_picture(std::span<const StageMemory> stages, i64 allowance,
                       std::optional<i64> limit);

}  // namespace lm::estimate
