// SPDX-License-Identifier: Apache-2.0
// --deepspeed_config: what a DeepSpeed configuration says, as if it had been given as flags. The
// keys are DeepSpeed's (https://www.deepspeed.ai/docs/config-json/).
#pragma once

#include "config/train_flags.hpp"

namespace lm::config {

// Sets in `flags` what the file that they name says: micro and global batch size, fp16 or bf16,
// gradient clipping, curriculum. Without a file nothing changes. Keys that mean nothing here are
// noted. Throws Error(usage) naming the file and the key when a flag on the command line says
// otherwise, and for a key that is unknown or would change a result.
void apply_deepspeed(TrainFlags& flags);

}  // namespace lm::config
