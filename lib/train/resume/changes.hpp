// SPDX-License-Identifier: Apache-2.0
// Compares a resumed run with the run that wrote its checkpoint. Refuses a difference that would
// silently change the result of the training, unless an --override flag allows it. Prints a note
// about any other difference.
#pragma once

#include "ckpt/format/checkpoint.hpp"
#include "train/config/run_config.hpp"

namespace lm::train {

// Returns the paths, weights and DatasetIdentity of the training datasets, for the manifest of a
// checkpoint. Reads a few pages of each dataset.
io::OrderedJson training_data(const RunConfig& config);

// Counts the iterations up to the checkpoint with the batches that they had (past_batches.hpp).
// With --use-checkpoint-opt_param-scheduler, takes the learning rate schedule and the weight decay
// from the checkpoint, as Megatron does, but not with --no-load-optim. Does nothing with
// --finetune.
void adopt_schedule(RunConfig& config, const ckpt::Checkpoint& checkpoint);

// Compares `config` and `data` (training_data() of this run) with the checkpoint. Throws
// Error(usage) for another tokenizer without --override-tokenizer, other samples without
// --override-data, or another learning rate schedule without --override-opt_param-scheduler. Prints
// a note for other differences. With --finetune only the tokenizer is compared.
void check_changes(const RunConfig& config, const io::OrderedJson& data,
                   const ckpt::Checkpoint& checkpoint);

}  // namespace lm::train
