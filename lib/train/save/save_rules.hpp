// SPDX-License-Identifier: Apache-2.0
// The rules by which a run saves: schedule, retention, retries and buffer. The flags that are text
// are parsed here once, when the configuration is resolved; --print-config prints them as the user
// wrote them.
#pragma once

#include <optional>
#include <vector>

#include "ckpt/history/prune.hpp"
#include "config/train_flags.hpp"
#include "spec/save_schedule.hpp"

namespace lm::train {

struct SaveRules {
    // --save-schedule, or --save-interval as one range. Empty: only at the end of the run.
    std::vector<spec::SaveRange> ranges;
    std::optional<ckpt::PruneRules> retain;  // --save-retain
    double retry_s = 60;                     // --save-retry
    // --exit-before-limit; nullopt: the end of the batch job is ignored, as in a run without saves.
    std::optional<double> before_limit_s;
};

// Returns the rules of the flags. Throws Error(usage) for an invalid value, and for a flag that
// needs --save without it.
SaveRules resolve_saves(const config::TrainFlags& flags);
// Returns the most bytes of host memory of a rank for asynchronous saves: 0 with --async-save off,
// in a run without saves and in a benchmark. Throws Error(usage).
i64 save_buffer_limit(const config::TrainFlags& flags);

// Throws Error(usage) for contradicting flags of the load, and for a flag that needs --load without
// it.
void check_load_flags(const config::CheckpointFlags& flags);
// Replaces --load DIR by DIR/global_stepN for --ckpt-step N. Throws Error(usage) when --load names
// a step.
void apply_load_step(config::CheckpointFlags& flags);

}  // namespace lm::train
