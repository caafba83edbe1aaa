// SPDX-License-Identifier: Apache-2.0
// Writes a checkpoint of lm-utils in the layout of Megatron-LM (format "torch"), with masters,
// moments and counters if the checkpoint has them.
#pragma once

#include "convert/conversion.hpp"

namespace lm::convert {

// Converts request.in to request.out for request.tp tensor ranks and request.pp stages; request.out
// appears whole or not at all. Throws Error(usage) when these sizes do not divide the model.
ConversionReport to_megatron_lm(const ConversionRequest& request);

}  // namespace lm::convert
