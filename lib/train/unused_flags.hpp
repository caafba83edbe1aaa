// SPDX-License-Identifier: Apache-2.0
// Flags that have no effect together with the other flags.
#pragma once

#include "config/train_flags.hpp"

namespace lm::train {

// Throws Error(usage) for a given flag without effect if the flag is lm-train's own or Megatron
// refuses it too. Prints a note if Megatron accepts the flag. Call it before a DeepSpeed
// configuration is applied.
void check_unused_flags(const config::TrainFlags& flags);

}  // namespace lm::train
