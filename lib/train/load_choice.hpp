// SPDX-License-Identifier: Apache-2.0
// Finds the checkpoint that a run starts from, and checks the directory that it saves to.
#pragma once

#include <optional>

#include "ckpt/checkpoint.hpp"
#include "config/output_flags.hpp"

namespace lm::train {

// Returns the checkpoint of --load, or nullopt when the run starts at iteration 0. Throws
// Error(usage) when --load names a step that does not exist, when its directory has files but no
// checkpoint of a run, and when the directory does not exist and --fresh is not given. Throws
// Error(failure) when the directory has no complete step.
std::optional<ckpt::Checkpoint> find_checkpoint(const config::CheckpointFlags& flags);

// Throws Error(usage) when --save has steps and the run does not resume from one of them: the run
// would mix its steps with the steps of another run. `start` is the result of find_checkpoint().
void check_save(const config::CheckpointFlags& flags, const std::optional<ckpt::Checkpoint>& start);

}  // namespace lm::train
