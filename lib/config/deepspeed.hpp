// SPDX-License-Identifier: Apache-2.0
// --deepspeed_config: the settings of a DeepSpeed configuration, as if they had been given as
// flags. The keys are DeepSpeed's (https://www.deepspeed.ai/docs/config-json/).
#pragma once

#include "config/train_flags.hpp"

namespace lm::config {

// Sets in `flags` the values of the file that --deepspeed_config names: micro and global batch
// size, fp16 or bf16, gradient clipping, curriculum. Does nothing without a file. Notes keys
// without effect here. Throws Error(usage) naming file and key when a flag of the command line has
// another value, and for a key that is unknown or would change a result.
void apply_deepspeed(TrainFlags& flags);

}  // namespace lm::config
