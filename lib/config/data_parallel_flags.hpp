// SPDX-License-Identifier: Apache-2.0
// The flags of data parallelism, with Megatron's names and defaults: which rank updates which
// weights, and which communication overlaps with computation.
#pragma once

#include <optional>

#include "config/field.hpp"

namespace lm::config {

struct DataParallelFlags {
    bool distributed_optimizer = false;  // --use-distributed-optimizer
    std::optional<i64> zero_stage;
    bool overlap_grad_reduce = false;
    bool overlap_param_gather = false;
    std::optional<i64> bucket_elements;  // --ddp-bucket-size
    std::optional<i64> check_replicas;   // iterations between two checks
    double timeout_min = 10;             // --distributed-timeout-minutes
};

const Fields<DataParallelFlags>& data_parallel_fields();

// Returns the ZeRO stage, 0 or 1. Throws Error(usage) for another stage, for flags that contradict
// each other, and for values out of range.
int resolve_zero_stage(const DataParallelFlags& flags);

}  // namespace lm::config
