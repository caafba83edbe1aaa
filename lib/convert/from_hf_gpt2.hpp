// SPDX-License-Identifier: Apache-2.0
// Writes a Hugging Face GPT-2 directory as a checkpoint of ours.
#pragma once

#include "convert/conversion.hpp"

namespace lm::convert {

// OUT appears whole or not at all; an existing one is Error(usage) unless `force`. Throws
// Error(usage) naming the flag when the model cannot be expressed on the other side.
ConversionReport from_hf_gpt2(const ConversionRequest& request);

}  // namespace lm::convert
