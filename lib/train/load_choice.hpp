// SPDX-License-Identifier: Apache-2.0
// Which checkpoint a run starts from, and whether it may save where it wants to.
#pragma once

#include <optional>

#include "ckpt/checkpoint.hpp"
#include "config/output_flags.hpp"

namespace lm::train {

// What --load means; nullopt: the run starts from the beginning. Throws Error(usage) when --load
// names a step that is not there, or something that no run left, or does not exist without --fresh;
// Error(failure) when none of its steps is complete.
std::optional<ckpt::Checkpoint> find_checkpoint(const config::CheckpointFlags& flags);

// A directory that holds steps is saved to by the run alone that goes on from one of them: another
// would mix its own among them. Throws Error(usage). `start` is what find_checkpoint() found.
void check_save(const config::CheckpointFlags& flags, const std::optional<ckpt::Checkpoint>& start);

}  // namespace lm::train
