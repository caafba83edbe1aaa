// SPDX-License-Identifier: Apache-2.0
// lm-convert --check: both sides compute the logits of the same tokens.
#pragma once

#include <string>

#include "base/dtype.hpp"

namespace lm::convert_tool {

struct Comparison {
    double largest = 0;  // difference of any logit
    double spread = 0;   // root mean square of the logits
};

// Ours from the checkpoint `native` by lm-train's code; theirs from the Hugging Face directory `hf`
// in double precision, by a forward pass that shares nothing with it. Throws Error(failure) when
// they differ by more than rounding to `dtype` explains.
Comparison compare_logits(const std::string& native, const std::string& hf, DType dtype);

}  // namespace lm::convert_tool
