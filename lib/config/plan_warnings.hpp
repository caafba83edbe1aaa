// SPDX-License-Identifier: Apache-2.0
// Warns about plans that differ much from published trainings. Each warning states the unusual
// number.
#pragma once

#include <string>

#include "config/model_flags.hpp"
#include "spec/rank_layout.hpp"
#include "spec/schedule.hpp"

namespace lm::config {

// Warns when the ratio of hidden size to number of layers is below 50 or above 400, when the
// initialization differs from sqrt(0.4 / h) by a factor of 2 or more (h: hidden size), and when
// padding enlarges the vocabulary by more than 1 %. The initialization of a model that --model
// names is the published one, so it is checked only when --init-method-std is given. `flags`: the
// flags that describe the model.
void warn_of_model(const ModelFlags& flags, const spec::ModelConfig& model,
                   const spec::ParallelConfig& parallel);

// Warns when the training ends before the warm-up of the learning rate.
void warn_of_warmup(const spec::Schedule& schedule);

// Warns when evaluations take more than 5 % of the running time. `share`: evaluations / running
// time.
void warn_of_evaluations(double share);

// The disk space and inodes that the checkpoints of a training need.
struct CheckpointNeed {
    i64 n = 1;      // checkpoints that are on disk at the same time
    i64 bytes = 0;  // bytes of a checkpoint
    i64 files = 0;  // inodes of a checkpoint: its files and its directory
};

// Warns when the file system of `directory` has too few free bytes or inodes, or when a quota
// allows too few.
void warn_of_room(const std::string& directory, const CheckpointNeed& need);

}  // namespace lm::config
