// SPDX-License-Identifier: Apache-2.0
// The flags of data parallelism: who updates which weights, and what communication hides behind
// computation; with Megatron's names and defaults.
#pragma once

#include <optional>
#include <string>

#include "base/types.hpp"
#include "cli/options.hpp"

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

void add_data_parallel_options(cli::Options& options, DataParallelFlags& flags);

// 0 or 1. Throws Error(usage) for another stage, flags that contradict each other, and numbers that
// mean nothing.
int resolve_zero_stage(const DataParallelFlags& flags);

}  // namespace lm::config
