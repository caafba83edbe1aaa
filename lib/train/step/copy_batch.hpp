// SPDX-License-Identifier: Apache-2.0
// Copies a micro-batch from the host to the inputs of a chunk on the device.
#pragma once

#include <vector>

#include "data/sampling/batch.hpp"
#include "model/pass.hpp"

namespace lm::train {

// Copies the fields of `batch` for which `inputs` has a view. Stages in the middle need neither
// tokens nor targets. `window`: the attention window in tokens; 0: no window. `no_mask`: [B * T]
// ones, the loss mask for a batch without a loss mask.
void copy_batch(device::Device& device, const data::Batch& batch, i64 window,
                const std::vector<float>& no_mask, const model::MicroBatchInputs& inputs);

}  // namespace lm::train
