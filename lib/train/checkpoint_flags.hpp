// SPDX-License-Identifier: Apache-2.0
// Checks the flags for saves and loads, and parses those that are text.
#pragma once

#include "config/train_flags.hpp"

namespace lm::train {

// Throws Error(usage) for an invalid value, and for a flag that needs --save without it.
void check_save_flags(const config::TrainFlags& flags);

// Throws Error(usage) for contradicting flags, and for a flag that needs --load without it.
void check_load_flags(const config::CheckpointFlags& flags);

// Returns the most bytes of host memory for asynchronous saves: 0 with --async-save off, in a run
// without saves and in a benchmark.
i64 save_buffer_limit(const config::TrainFlags& flags);

}  // namespace lm::train
