// SPDX-License-Identifier: Apache-2.0
// Reads a universal checkpoint of DeepSpeed (ds_to_universal.py) of a Megatron-DeepSpeed pipeline:
// whole fp32 parameters and moments, one file each.
#pragma once

#include "convert/conversion.hpp"

namespace lm::convert {

// Returns whether `step` is the directory of one universal step.
bool is_universal(const std::string& step);

// Converts the step `step` to the directory request.out. The weights are the fp32 parameters,
// rounded to the type of the training.
ConversionReport from_universal(const ConversionRequest& request, const std::string& step);

}  // namespace lm::convert
