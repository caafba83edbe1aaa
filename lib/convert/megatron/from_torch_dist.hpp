// SPDX-License-Identifier: Apache-2.0
// Reads a checkpoint of Megatron-LM in the format "torch_dist": weights, fp32 masters and Adam
// moments of the plain optimizer and of all forms of the distributed optimizer.
#pragma once

#include "convert/megatron/megatron_import.hpp"

namespace lm::convert {

// Returns the sources of all tensors of the step `step` (dist_checkpoint.hpp). `request` must
// outlive the sources.
MegatronImport open_torch_dist(const ConversionRequest& request, const std::string& step);

}  // namespace lm::convert
