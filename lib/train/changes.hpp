// SPDX-License-Identifier: Apache-2.0
// What a run that goes on does otherwise than the run that wrote its checkpoint. Most of it may
// change and is noted; what would silently spoil a training needs a flag that says it is meant.
#pragma once

#include "ckpt/checkpoint.hpp"
#include "train/run_config.hpp"

namespace lm::train {

// The datasets that are trained on, for a checkpoint to remember: paths, weights and
// DatasetIdentity. Reads a few pages of each.
io::OrderedJson training_data(const RunConfig& config);

// Throws Error(usage) when the tokenizer is another one (without --override-tokenizer), the samples
// would be others (without --override-data) or the learning rate's schedule is (without
// --override-opt_param-scheduler); notes other changes. With --finetune the tokenizer alone counts.
// `data` is training_data() of now.
void check_changes(const RunConfig& config, const io::OrderedJson& data,
                   const ckpt::Checkpoint& checkpoint);

}  // namespace lm::train
