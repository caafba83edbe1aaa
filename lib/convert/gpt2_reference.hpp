// SPDX-License-Identifier: Apache-2.0
// Computes the forward pass of GPT-2 in fp64 with plain loops, directly from a Hugging Face
// directory. Shares no code with lib/model, so that conversions can be checked against it. Follows
// modeling_gpt2.py of transformers.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/types.hpp"

namespace lm::convert {

// Returns the logits [T, vocabulary], row-major, of one sequence of T tokens. Throws Error(failure)
// naming file and tensor.
std::vector<double> gpt2_reference_logits(const std::string& model, std::span<const i32> tokens);

}  // namespace lm::convert
