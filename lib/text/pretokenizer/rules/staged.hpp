// SPDX-License-Identifier: Apache-2.0
// The pre-tokenizers of DeepSeek and Falcon, which are sequences of stages. Each stage cuts every
// pre-token of the previous stage as a separate text.
#pragma once

#include <memory>

#include "text/pretokenizer/rules/scalar_pretokenizer.hpp"

namespace lm::text {

// Returns a pre-tokenizer that takes linear time and constant memory. Throws Error(bug) when `rule`
// has no stages.
std::unique_ptr<Pretokenizer> make_staged_pretokenizer(PretokenizerRule rule);

}  // namespace lm::text
