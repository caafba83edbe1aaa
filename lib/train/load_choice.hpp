// SPDX-License-Identifier: Apache-2.0
// The checkpoint that a run starts from, and the check of the directory that it saves to.
#pragma once

#include <optional>

#include "ckpt/checkpoint.hpp"
#include "config/output_flags.hpp"

namespace lm::train {

// Returns the checkpoint of --load, or nullopt when the run starts at iteration 0. Throws
// Error(usage) when --load names a step that does not exist, has files but no checkpoint of a run,
// or does not exist and --fresh is not given; throws Error(failure) when it has no
// complete step.
std::optional<ckpt::Checkpoint> find_checkpoint(const config::CheckpointFlags& flags);

// Throws Error(usage) when --save has steps and the run does not resume from one of them: it would
// mix its steps with those of another run. `start` is the result of find_checkpoint().
void check_save(const config::CheckpointFlags& flags, const std::optional<ckpt::Checkpoint>& start);

}  // namespace lm::train
