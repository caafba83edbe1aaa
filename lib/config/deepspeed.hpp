// SPDX-License-Identifier: Apache-2.0
// --deepspeed_config: reads settings from a DeepSpeed configuration file as if they were flags. The
// keys are DeepSpeed's (https://www.deepspeed.ai/docs/config-json/).
#pragma once

#include <optional>

#include "config/train_flags.hpp"

namespace lm::config {

// Sets in `flags` the values of the file that --deepspeed_config names: micro and global batch
// size (of which two give the third, as in DeepSpeed: `n_ranks` is the number of ranks of the run,
// if it is known), ZeRO stage, fp16 or bf16, loss scale, gradient clipping, curriculum. Does
// nothing when
// --deepspeed_config is not given. Prints a note with the keys that have no effect here. Throws
// Error(usage) naming file and key when a key and the corresponding command-line flag have
// different values, when a key is unknown or appears twice, and when lm-train does not support a
// key that would change a result.
void apply_deepspeed(TrainFlags& flags, std::optional<i64> n_ranks = {});

}  // namespace lm::config
