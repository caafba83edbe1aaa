// SPDX-License-Identifier: Apache-2.0
// Computes the forward pass of a Hugging Face model in fp64 with plain loops, directly from its
// directory. Shares no code with lib/model and no table with the converter, so that it can check
// conversions. Follows the modeling_*.py of transformers.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/types.hpp"

namespace lm::convert {

// Returns the logits [T, vocabulary], row-major, of one sequence of T tokens. Throws Error(failure)
// that names the file and the tensor.
std::vector<double> hf_reference_logits(const std::string& model, std::span<const i32> tokens);

}  // namespace lm::convert
