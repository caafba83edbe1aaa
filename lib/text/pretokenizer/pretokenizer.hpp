// SPDX-License-Identifier: Apache-2.0
// The choice of a pre-tokenizer for this machine.
#pragma once

#include "text/pretokenizer/rules/scalar_pretokenizer.hpp"

namespace lm::text {

// Returns the fastest implementation of the rule for this machine.
std::unique_ptr<Pretokenizer> make_pretokenizer(PretokenizerRule rule);

}  // namespace lm::text
