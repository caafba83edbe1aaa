// SPDX-License-Identifier: Apache-2.0
// The pre-tokenizers of DeepSeek and Falcon, which are sequences of stages. Each stage cuts every
// pre-token of the previous stage as a separate text.
#pragma once

#include <memory>

#include "text/pretokenizer/pretokenizer.hpp"

namespace lm::text {

// The pre-tokenizer takes linear time and constant memory. Throws bug() for a rule without stages.
std::unique_ptr<Pretokenizer> make_staged_pretokenizer(PretokenizerRule rule);

}  // namespace lm::text
