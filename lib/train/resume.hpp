// SPDX-License-Identifier: Apache-2.0
// From a checkpoint to a running state and back: counters, and what changed on the command line.
#pragma once

#include "metrics/interval.hpp"
#include "train/run_config.hpp"

namespace lm::train {

// Where the run is. The learning rate follows `stepped`: what the optimizer's updates have taken,
// which leaves out steps that were not made.
struct Position {
    optim::Counters done;
    optim::Counters stepped;
    metrics::IntervalSums interval;  // what has not been logged yet
};

// That what --load names exists and fits the model, and that --save holds no other run: said before
// data is opened or memory allocated.
void check_checkpoints(const RunConfig& config);

// That every file and directory the run will write can be written. Makes nothing.
void check_writable(const OutputFlags& output);

// Loads what --load asks for into `trainer`, or initialises it; says which on stderr.
Position start(const RunConfig& config, Trainer& trainer);

// Throws Error(usage) naming the flag when `saved` is another model than `wanted`.
void require_same_model(const spec::ModelConfig& saved, const spec::ModelConfig& wanted,
                        const std::string& path);

ckpt::SaveInfo save_info(const RunConfig& config, const Trainer& trainer, const Position& position);

}  // namespace lm::train
