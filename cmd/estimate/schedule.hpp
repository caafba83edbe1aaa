// SPDX-License-Identifier: Apache-2.0
// The schedule flags that batch, checkpoint and time share, under lm-train's names.
#pragma once

#include <optional>
#include <vector>

#include "cli/options.hpp"
#include "spec/batch_ramp.hpp"

namespace lm::estimate {

struct ScheduleFlags {
    std::optional<i64> global_batch;
    std::vector<i64> ramp;
    std::optional<i64> train_samples;
    std::optional<i64> train_iters;
    std::optional<i64> train_tokens;
};

void add_schedule_options(cli::Options& options, ScheduleFlags& flags);

// What is trained: batch sizes and samples.
struct Schedule {
    spec::BatchRamp ramp;
    i64 samples = 0;
};
// `seq_length` 0: not known, then --train-tokens is refused. Throws Error(usage).
Schedule resolve_schedule(const ScheduleFlags& flags, i64 seq_length);

void at_least_one(std::string_view flag, i64 value);

}  // namespace lm::estimate
