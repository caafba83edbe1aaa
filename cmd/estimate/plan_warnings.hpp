// SPDX-License-Identifier: Apache-2.0
// Warnings, each with its figure, about plans that differ much from the trainings of the field.
#pragma once

#include <string>

#include "spec/rank_layout.hpp"

namespace lm::estimate {

// Warns of a ratio hidden size / layers outside 50 to 400, of an initialization that differs from
// sqrt(0.4 / h) by a factor of 2 or more, and of a vocabulary that is padded by more than 1 %.
void warn_of_model(const spec::ModelConfig& model, const spec::ParallelConfig& parallel);

// The checkpoints that a training writes below --save.
struct CheckpointNeed {
    i64 n = 1;      // checkpoints that are on disk at the same time
    i64 bytes = 0;  // bytes of a checkpoint
    i64 files = 0;  // files of a checkpoint, with its directory
};

// Warns when the file system of `directory` lacks bytes or inodes, also by a quota.
void warn_of_room(const std::string& directory, const CheckpointNeed& need);

}  // namespace lm::estimate
