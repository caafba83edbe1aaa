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

// Returns a bar for each stage: the parts of its plan, NCCL and `allowance`. If `limit` is given, a
// line shows it. A rank fits when its bar ends below the line. All numbers are bytes.
Picture memory_picture(std::span<const StageMemory> stages, i64 allowance,
                       std::optional<i64> limit);

}  // namespace lm::estimate
