// SPDX-License-Identifier: Apache-2.0
// The differences between a resumed run and the run that wrote its checkpoint. A note states most
// differences. A difference that would spoil the training without an error needs an --override
// flag.
#pragma once

#include "ckpt/checkpoint.hpp"
#include "train/run_config.hpp"

namespace lm::train {

// Returns the paths, weights and DatasetIdentity of the training datasets, for the manifest of a
// checkpoint. Reads a few pages of each dataset.
io::OrderedJson training_data(const RunConfig& config);

// Compares `config` and `data` (training_data() of this run) with the checkpoint. Throws
// Error(usage) for another tokenizer without --override-tokenizer, other samples without
// --override-data, or another learning rate schedule without --override-opt_param-scheduler. Prints
// a note for other differences. With --finetune only the tokenizer is compared.
void check_changes(const RunConfig& config, const io::OrderedJson& data,
                   const ckpt::Checkpoint& checkpoint);

}  // namespace lm::train
