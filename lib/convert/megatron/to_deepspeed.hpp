// SPDX-License-Identifier: Apache-2.0
// Writes a checkpoint of lm-utils in the pipeline layout of Megatron-DeepSpeed, with masters,
// moments and counters if the checkpoint has them.
#pragma once

#include "convert/conversion.hpp"

namespace lm::convert {

// Converts request.in to request.out as to_megatron_lm() does. Writes the optimizer state in the
// form of a DeepSpeed run with one data-parallel rank.
ConversionReport to_megatron_deepspeed(const ConversionRequest& request);

}  // namespace lm::convert
