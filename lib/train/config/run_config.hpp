// SPDX-License-Identifier: Apache-2.0
// The configuration of a run, resolved from the command line and the data's metadata files.
// resolve() makes all checks before the run allocates memory or writes a file.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/problem_list.hpp"
#include "base/threads.hpp"
#include "ckpt/format/manifest.hpp"
#include "config/skip_ranges.hpp"
#include "config/train_flags.hpp"
#include "data/sampling/datasets.hpp"
#include "data/sampling/loader.hpp"
#include "spec/schedule.hpp"
#include "train/config/save_rules.hpp"
#include "train/config/trainer_config.hpp"

namespace lm::train {

// A member whose type is config::*Flags keeps the flags as the user gave them. The flags
// --data-order, --save-schedule, --save-retain, --save-retry and --async-save-buffer are texts with
// a syntax of their own. --print-config and the manifest print these texts; the members
// `data_order`, `saves` and `trainer` have the parsed values.
struct RunConfig {
    TrainerConfig trainer;   // model, parallelism, optimizer, precision, documents, device
    config::DataFlags data;  // data.paths includes the datasets that files name
    data::DataOrder data_order = data::DataOrder::stateless;
    spec::Schedule schedule;
    SaveRules saves;
    std::vector<config::IterationRange> skipped;  // iterations that are not trained on
    ckpt::TokenizerInfo tokenizer;                // tokenizer of the data
    config::RankCheckFlags rank_checks;
    config::ValidationFlags validation;
    config::CheckpointFlags checkpoints;
    config::StoppingFlags stopping;
    config::LoggingFlags logging;
    config::ActionFlags action;
    std::string command_line;

    data::BatchOptions batch_options() const;
    // Returns the number of samples in one batch of a validation or test.
    i64 validation_batch() const;
    // Returns the number of samples that one validation or test reads from each set; 0: the run
    // makes neither.
    i64 validation_samples() const;
    // Returns the number of samples that all validations of the run together read from each set.
    i64 all_validation_samples() const;
};

// The properties of a run's ranks that the launcher and the hosts determine, not the flags.
struct StartedRanks {
    i64 n = 1;
    bool have_gpus = false;         // result of choose_gpus()
    i64 cores = available_cores();  // CPU threads of a rank without --threads
};

// Returns the configuration of a run on `ranks`. Throws an Error with all problems of the flags.
RunConfig resolve(const config::TrainFlags& flags, std::string command_line,
                  const StartedRanks& ranks = {});

// Returns the configuration for a plan. Adds every error to `problems`. Returns nullopt when the
// model or the schedule cannot be resolved.
std::optional<RunConfig> resolve(const config::TrainFlags& flags, std::string command_line,
                                 const StartedRanks& ranks, Problems& problems);

}  // namespace lm::train
