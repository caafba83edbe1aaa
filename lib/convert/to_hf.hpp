// SPDX-License-Identifier: Apache-2.0
// Writes a checkpoint of lm-utils as a Hugging Face directory.
#pragma once

#include "convert/conversion.hpp"

namespace lm::convert {

// Returns the format of Hugging Face that can hold the checkpoint at `path`; of several such
// formats, the most common one. When there is none, throws Error(usage) that names a flag of the
// model.
Format choose_hf_format(const std::string& path);

// Converts request.in to request.out, which appears whole or not at all. Throws Error(usage) when
// request.out exists and request.force is false. When `format` cannot represent the model, throws
// Error(usage) that names the flag of the model and the formats that can represent it.
ConversionReport to_hf(const ConversionRequest& request, Format format);

}  // namespace lm::convert
