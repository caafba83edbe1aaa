// SPDX-License-Identifier: Apache-2.0
// The flags of data parallelism, with Megatron's names and defaults: which rank updates which
// weights, which communication overlaps with computation, and how ranks check each other.
#pragma once

#include <optional>

#include "config/field.hpp"
#include "spec/data_parallel_config.hpp"

namespace lm::config {

struct ZeroFlags {
    bool distributed_optimizer = false;  // --use-distributed-optimizer
    std::optional<i64> stage;            // --zero-stage
};

struct RankCheckFlags {
    i64 check_replicas = 100;  // iterations between two checks; 0: none
    double timeout_min = 10;   // --distributed-timeout-minutes
    bool node_check = true;    // false with --no-node-check

    // Throws Error(usage) naming the flag whose value is invalid.
    void check() const;
};

const Fields<ZeroFlags>& zero_fields();
const Fields<spec::DataParallelConfig>& data_parallel_fields();
const Fields<RankCheckFlags>& rank_check_fields();

// Returns the ZeRO stage that the flags choose, 0 or 1. Throws Error(usage) for another stage, for
// flags that contradict each other, and for values out of range.
int resolve_zero_stage(const ZeroFlags& zero, const spec::DataParallelConfig& data_parallel);

}  // namespace lm::config
