// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/train_flags.hpp"

namespace lm::train {

// Flags that were given but do nothing beside the others: Error(usage) for those that are ours
// alone or exclude each other in Megatron too, a note for those that Megatron accepts. To be called
// before a DeepSpeed configuration is applied.
void check_unused_flags(const config::TrainFlags& flags);

}  // namespace lm::train
