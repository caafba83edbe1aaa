// SPDX-License-Identifier: Apache-2.0
// Writes a checkpoint of lm-utils as a Hugging Face GPT-2 directory.
#pragma once

#include "convert/conversion.hpp"

namespace lm::convert {

// Converts request.in to request.out, which appears whole or not at all. Throws Error(usage) when
// request.out exists and `force` is false. Throws Error(usage) naming the flag when the other
// format cannot represent the model.
ConversionReport to_hf_gpt2(const ConversionRequest& request);

}  // namespace lm::convert
