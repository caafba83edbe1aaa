// SPDX-License-Identifier: Apache-2.0
// What a run is, resolved from the command line and the data's side files: everything is checked
// here, before memory is allocated or a file is written.
#pragma once

#include <memory>
#include <string>

#include "ckpt/manifest.hpp"
#include "data/sampling/datasets.hpp"
#include "io/json.hpp"
#include "optim/schedule.hpp"
#include "text/tokenizer.hpp"
#include "train/flags.hpp"
#include "train/problems.hpp"
#include "train/trainer.hpp"

namespace lm::train {

struct RunConfig {
    TrainerConfig trainer;
    spec::Precision precision;
    data::DataConfig data;       // no path of any kind: mock data
    bool share_index = false;    // of Megatron's orders, in the place that is ours by default
    i64 validation_samples = 0;  // of each set, each time
    data::BatchOptions batch;
    optim::Schedule schedule;
    std::optional<i64> check_replicas;  // iterations between two checks
    ckpt::TokenizerInfo tokenizer;
    OutputFlags output;
    std::string command_line;
};

// Of a run on `n_ranks`. Throws Error(usage) naming the flag that does not fit.
RunConfig resolve(const TrainFlags& flags, std::string command_line, i64 n_ranks = 1);
// For a plan: all that does not fit goes to `problems`; nullopt when model or schedule cannot be
// told.
std::optional<RunConfig> resolve(const TrainFlags& flags, std::string command_line, i64 n_ranks,
                                 Problems& problems);

// What made the data of the run: the tokenizer that the flags name, else the one of the data's side
// files when we have it; nullptr when that cannot be told.
std::shared_ptr<const text::Tokenizer> tokenizer_of(const RunConfig& config,
                                                    const DataFlags& flags);

// The data of the run; opens the files and checks that they fit.
data::DataSets open_data(const RunConfig& config);

// The resolved configuration for --print-config, and the part of it that a resumed run compares.
io::OrderedJson to_json(const RunConfig& config);
io::OrderedJson schedule_json(const RunConfig& config);

}  // namespace lm::train
