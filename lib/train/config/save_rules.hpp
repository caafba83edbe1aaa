// SPDX-License-Identifier: Apache-2.0
// The rules by which a run saves: schedule, retention, retries and buffer. Flags whose values are
// texts are parsed here once, when the configuration is resolved; --print-config prints these texts
// unchanged.
#pragma once

#include <optional>
#include <vector>

#include "ckpt/verbs/prune.hpp"
#include "config/train_flags.hpp"
#include "spec/save_schedule.hpp"

namespace lm::train {

struct SaveRules {
    // --save-schedule, or --save-interval as one range. Empty: the run saves only at its end.
    std::vector<spec::SaveRange> ranges;
    std::optional<ckpt::PruneRules> retain;  // --save-retain
    double retry_s = 60;                     // --save-retry, in seconds
    // --exit-before-limit in seconds; nullopt: the run ignores the end of the batch job. Without
    // --save and in a benchmark it is nullopt.
    std::optional<double> before_limit_s;
};

// Parses
// "keep-last=3,keep-every=1000,keep=5,7,keep-schedule=10@100,1500,weights-only-older-than=2".
// Throws Error(usage) naming --save-retain.
ckpt::PruneRules parse_retain(const std::string& text);

// Returns the rules with `ranges` and `retain` of the flags. Throws Error(usage) for an invalid
// value. Does not need --save.
SaveRules rules_of_steps(const config::CheckpointFlags& flags);
// Returns the rules of the flags. Throws Error(usage) for an invalid value, and for a flag that
// needs --save when --save is missing.
SaveRules resolve_saves(const config::TrainFlags& flags);
// Throws Error(usage) when one of --local-save and --local-save-interval needs the other.
void check_local_save_flags(const config::CheckpointFlags& flags);
// Returns how many bytes of host memory a rank may use for asynchronous saves: 0 with --async-save
// off, in a run without saves and in a benchmark. Throws Error(usage).
i64 save_buffer_limit(const config::TrainFlags& flags);

// Throws Error(usage) for contradicting flags about loading, and for a flag that needs --load when
// --load is missing.
void check_load_flags(const config::CheckpointFlags& flags);
// With --ckpt-step N, replaces the DIR of --load by DIR/global_stepN. Throws Error(usage) when
// --load names a step.
void apply_load_step(config::CheckpointFlags& flags);

}  // namespace lm::train
