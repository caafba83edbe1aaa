// SPDX-License-Identifier: Apache-2.0
// Reads a universal checkpoint of DeepSpeed (ds_to_universal.py) of a Megatron-DeepSpeed pipeline:
// whole fp32 parameters and moments, each in a file of its own.
#pragma once

#include "convert/megatron/megatron_import.hpp"

namespace lm::convert {

// Returns whether `step` is the directory of one universal step.
bool is_universal(const std::string& step);

// Returns the sources of all tensors of the step `step`. The weights are the fp32 parameters,
// rounded to the type of the training. `request` must outlive the sources.
MegatronImport open_universal(const ConversionRequest& request, const std::string& step);

}  // namespace lm::convert
