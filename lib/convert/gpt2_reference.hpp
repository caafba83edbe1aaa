// SPDX-License-Identifier: Apache-2.0
// GPT-2's forward pass by the book, in double precision and plain loops, straight from a Hugging
// Face directory under their names. It shares nothing with lib/model: conversions are checked
// against it. Follows transformers' modeling_gpt2.py.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/types.hpp"

namespace lm::convert {

// Logits [T, vocabulary] of one sequence of T tokens. Throws Error(failure) naming file and tensor.
std::vector<double> gpt2_reference_logits(const std::string& model, std::span<const i32> tokens);

}  // namespace lm::convert
