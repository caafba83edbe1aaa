// SPDX-License-Identifier: Apache-2.0
// The configuration of a run, resolved from the command line and the data's metadata files. All
// checks are made here, before memory is allocated or a file is written.
#pragma once

#include <optional>
#include <string>

#include "ckpt/manifest.hpp"
#include "config/train_flags.hpp"
#include "data/sampling/datasets.hpp"
#include "optim/schedule.hpp"
#include "train/problems.hpp"
#include "train/trainer.hpp"

namespace lm::train {

struct RunConfig {
    TrainerConfig trainer;       // model, parallelism, optimizer, precision, device
    data::DataConfig data;       // without paths: mock data
    bool share_index = false;    // ranks of a host share the index in the default directory
    i64 validation_samples = 0;  // samples of each set in one validation
    bool reset_position_ids = false;
    bool eod_mask_loss = false;
    optim::Schedule schedule;
    std::optional<i64> check_replicas;  // iterations between two checks
    ckpt::TokenizerInfo tokenizer;      // tokenizer of the data
    config::ValidationFlags validation;
    config::CheckpointFlags checkpoints;
    config::StoppingFlags stopping;
    config::LoggingFlags logging;
    config::ActionFlags action;
    std::string command_line;

    data::BatchOptions batch_options() const;
};

// Returns the configuration of a run on `n_ranks` ranks. Throws Error(usage) naming the first flag
// that is invalid.
RunConfig resolve(const config::TrainFlags& flags, std::string command_line, i64 n_ranks = 1);

// Returns the configuration for a plan. Adds all errors to `problems`. Returns nullopt when the
// model or the schedule cannot be resolved.
std::optional<RunConfig> resolve(const config::TrainFlags& flags, std::string command_line,
                                 i64 n_ranks, Problems& problems);

}  // namespace lm::train
