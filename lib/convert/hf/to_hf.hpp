// SPDX-License-Identifier: Apache-2.0
// Writes a checkpoint of lm-utils as a Hugging Face directory.
#pragma once

#include "convert/conversion.hpp"
#include "convert/hf/classes.hpp"

namespace lm::convert {

// Returns the class of transformers that can hold the checkpoint at `path`; of several such
// classes, the most common one. When there is none, throws Error(usage) that names a flag of the
// model.
const HfClass& choose_hf_class(const std::string& path);

// Converts request.in to request.out, which appears whole or not at all. Throws Error(usage) when
// request.out exists and request.force is false. When `hf` cannot represent the model, throws
// Error(usage) that names the flag of the model and the classes that can represent it.
ConversionReport to_hf(const ConversionRequest& request, const HfClass& hf);

}  // namespace lm::convert
