// SPDX-License-Identifier: Apache-2.0
// The configuration of a run, resolved from the command line and the data's metadata files. All
// checks are made here, before memory is allocated or a file is written.
#pragma once

#include <optional>
#include <string>

#include "ckpt/manifest.hpp"
#include "config/train_flags.hpp"
#include "data/sampling/datasets.hpp"
#include "data/sampling/loader.hpp"
#include "optim/schedule.hpp"
#include "train/problems.hpp"
#include "train/trainer_config.hpp"

namespace lm::train {

struct RunConfig {
    TrainerConfig trainer;   // model, parallelism, optimizer, precision, documents, device
    config::DataFlags data;  // datasets; the groups of a file are in the members for groups
    optim::Schedule schedule;
    ckpt::TokenizerInfo tokenizer;  // tokenizer of the data
    config::RankCheckFlags rank_checks;
    config::ValidationFlags validation;
    config::CheckpointFlags checkpoints;
    config::StoppingFlags stopping;
    config::LoggingFlags logging;
    config::ActionFlags action;
    std::string command_line;

    data::DataOrder data_order() const { return data::parse_data_order(data.order); }
    data::BatchOptions batch_options() const;
    // Returns the samples of each set in one validation or test; 0: the run has none.
    i64 validation_samples() const;
    // Returns the samples of each validation set that the whole run reads.
    i64 all_validation_samples() const;
};

// Returns the configuration of a run on `n_ranks` ranks. Throws Error(usage) naming the first flag
// that is invalid.
RunConfig resolve(const config::TrainFlags& flags, std::string command_line, i64 n_ranks = 1);

// Returns the configuration for a plan. Adds all errors to `problems`. Returns nullopt when the
// model or the schedule cannot be resolved.
std::optional<RunConfig> resolve(const config::TrainFlags& flags, std::string command_line,
                                 i64 n_ranks, Problems& problems);

}  // namespace lm::train
