// SPDX-License-Identifier: Apache-2.0
// From a checkpoint to a running state and back: counters, and what changed on the command line.
#pragma once

#include <optional>

#include "ckpt/checkpoint.hpp"
#include "ckpt/steps.hpp"
#include "comm/group.hpp"
#include "metrics/interval.hpp"
#include "train/run_config.hpp"

namespace lm::train {

// Where the run is. The learning rate follows `stepped`: what the optimizer's updates have taken,
// which leaves out steps that were not made.
struct Progress {
    optim::Counters done;
    optim::Counters stepped;
    metrics::IntervalSums interval;  // what has not been logged yet
};

// What the run starts from, nullopt: from the beginning; that it fits the model, and that --save
// holds no other run: said before data is opened or memory allocated.
std::optional<ckpt::Checkpoint> check_checkpoints(const RunConfig& config);
// The same of all ranks: rank 0 chooses, since files of a shared file system can look different
// from each host. Collective.
std::optional<ckpt::Checkpoint> check_checkpoints(const RunConfig& config, comm::Group& world);

// That every file and directory the run will write can be written. Makes nothing.
void check_writable(const config::CheckpointFlags& checkpoints,
                    const config::LoggingFlags& logging);

// Loads `checkpoint` into `trainer`, or initialises it; says which on stderr. When --load is a
// directory of steps and this one turns out damaged on any rank, all of them take the one that
// ckpt::open_other() gives, with a warning. `data` is training_data(), which rank 0 alone needs.
// Collective.
Progress start(const RunConfig& config, const io::OrderedJson& data,
               std::optional<ckpt::Checkpoint> checkpoint, comm::Group& world, Trainer& trainer);

// Throws Error(usage) naming the flag when `saved` is another model than `wanted`.
void require_same_model(const spec::ModelConfig& saved, const spec::ModelConfig& wanted,
                        const std::string& path);

ckpt::SaveInfo save_info(const RunConfig& config, const Trainer& trainer, const Progress& progress,
                         const io::OrderedJson& data);

}  // namespace lm::train
