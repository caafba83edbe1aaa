// SPDX-License-Identifier: Apache-2.0
// Reads a pipeline checkpoint of Megatron-DeepSpeed and writes a checkpoint of lm-utils. Reads
// weights from the layer files, and fp32 masters and Adam moments from the ZeRO files of all
// data-parallel ranks. from_universal.hpp reads universal checkpoints.
#pragma once

#include "convert/megatron/megatron_import.hpp"

namespace lm::convert {

// Returns whether `path` is a pipeline checkpoint of Megatron-DeepSpeed or a directory of such
// checkpoints.
bool is_megatron_deepspeed(const std::string& path);

// open_megatron_deepspeed() finds the sources of all tensors of request.in, which is a directory
// with `latest`, or a step global_stepN. `request` must outlive the sources.
// from_megatron_deepspeed() also writes the checkpoint to the directory request.out. Throw
// Error(usage) for a model that lm-utils does not support, Error(failure) naming file and tensor
// for an incomplete checkpoint.
MegatronImport open_megatron_deepspeed(const ConversionRequest& request);
ConversionReport from_megatron_deepspeed(const ConversionRequest& request);

}  // namespace lm::convert
