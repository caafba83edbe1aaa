// SPDX-License-Identifier: Apache-2.0
// Writes a checkpoint of lm-utils in the layouts of Megatron-LM (format "torch") and of
// Megatron-DeepSpeed (pipeline), with masters, moments and counters if the checkpoint has them.
#pragma once

#include "convert/conversion.hpp"

namespace lm::convert {

// Convert request.in to request.out for request.tp tensor ranks and request.pp stages; request.out
// appears whole or not at all. Throw Error(usage) when these sizes do not divide the model.
ConversionReport to_megatron_lm(const ConversionRequest& request);
// Writes the optimizer state as a DeepSpeed run with one data-parallel rank saves it.
ConversionReport to_megatron_deepspeed(const ConversionRequest& request);

}  // namespace lm::convert
