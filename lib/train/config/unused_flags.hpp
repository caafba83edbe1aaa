// SPDX-License-Identifier: Apache-2.0
// Finds flags that have no effect in combination with the other flags of the command line.
#pragma once

#include "config/train_flags.hpp"

namespace lm::train {

// For a given flag without effect, throws Error(usage) if only lm-train has this flag or if
// Megatron also refuses it; otherwise prints a note. Call it before a DeepSpeed configuration is
// applied. `on_gpus`: the run computes on GPUs.
void check_unused_flags(const config::TrainFlags& flags, bool on_gpus);

}  // namespace lm::train
