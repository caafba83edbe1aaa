// SPDX-License-Identifier: Apache-2.0
// lm-train's command line, which every verb takes whole: what a verb looks at it shows, the rest it
// takes in silence.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options.hpp"
#include "config/train_flags.hpp"
#include "spec/batch_ramp.hpp"

namespace lm::estimate {

// Declares all of lm-train's flags; `shown` are the names and groups that matter to the verb.
void add_run_options(cli::Options& options, config::TrainFlags& flags,
                     const std::vector<std::string>& shown);

// What --deepspeed_config says, as if it had been given as flags. The first thing that a verb does.
config::TrainFlags resolve_flags(const config::TrainFlags& flags);

// The model of lm-train: its vocabulary is that of the tokenizer or the data where they can be
// read. Throws Error(usage).
spec::ModelConfig resolve_model(const config::TrainFlags& flags);

// 1 when it is not given. Throws Error(usage).
i64 resolve_micro_batch(const config::TrainFlags& flags);

// What is trained: batch sizes and samples.
struct Schedule {
    spec::BatchRamp ramp;
    i64 samples = 0;
};
// `seq_length` 0: not known, then --train-tokens is refused. Throws Error(usage).
Schedule resolve_schedule(const config::TrainFlags& flags, i64 seq_length);

void at_least_one(std::string_view flag, i64 value);

}  // namespace lm::estimate
