// SPDX-License-Identifier: Apache-2.0
// Computes the forward pass of a Hugging Face model in fp64 with plain loops, directly from its
// directory. Shares no code with lib/model and moves no tensor with the converter's code, so that
// it can check conversions. It shares only the description of the class (classes.hpp): two readers
// of config.json would differ sooner or later, and tests against transformers prove the
// description. Follows the modeling_*.py of transformers.
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
