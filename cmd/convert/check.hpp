// SPDX-License-Identifier: Apache-2.0
// lm-convert --check: compares the logits of both formats for the same tokens.
#pragma once

#include <string>

#include "base/dtype.hpp"

namespace lm::convert_tool {

struct Comparison {
    double largest = 0;  // largest absolute difference of a logit
    double rms = 0;      // root mean square of the logits
    double our_perplexity = 0;
    double their_perplexity = 0;
};

// Computes the logits of the checkpoint `native` with the code of lm-train, and those of the
// Hugging Face model `hf` with hf_reference_logits() in fp64. Throws Error(answer_is_no) when they
// differ by more than the rounding to `dtype` explains; when another activation function explains
// the difference, the message names it.
Comparison compare_logits(const std::string& native, const std::string& hf, DType dtype);

// Computes the logits of an imported checkpoint with the code of lm-train. Returns their perplexity
// for the tokens of compare_logits(). Throws Error(answer_is_no) when a logit is not finite.
double check_import(const std::string& native);

}  // namespace lm::convert_tool
