// SPDX-License-Identifier: Apache-2.0
// Reads a checkpoint of Megatron-LM and writes a checkpoint of lm-utils: weights, fp32 masters and
// Adam moments. Reads the format "torch". from_torch_dist.hpp reads the format "torch_dist".
#pragma once

#include "convert/megatron/megatron_import.hpp"

namespace lm::convert {

// Returns whether `path` is a step of Megatron-LM, in the format "torch" or "torch_dist", or a
// directory of steps with latest_checkpointed_iteration.txt.
bool is_megatron_lm(const std::string& path);

// open_megatron_lm() finds the sources of all tensors of request.in, which is a directory with
// latest_checkpointed_iteration.txt, or a step iter_NNNNNNN. `request` must outlive the sources.
// from_megatron_lm() also writes the checkpoint to the directory request.out. Throw Error(usage)
// for a model that lm-utils does not support, Error(failure) naming file and tensor for an
// incomplete checkpoint.
MegatronImport open_megatron_lm(const ConversionRequest& request);
ConversionReport from_megatron_lm(const ConversionRequest& request);

}  // namespace lm::convert
