// SPDX-License-Identifier: Apache-2.0
// Chooses the tokens for which lm-convert --check computes logits.
#pragma once

#include <string>
#include <vector>

#include "spec/model.hpp"

namespace lm::check {

struct CheckTokens {
    std::vector<i32> ids;
    std::string what;  // "310 tokens of English text", "64 random tokens"
};

// Returns the start of an installed English text, tokenized for the model: by the first of
// `directories` with tokenizer.json, or vocab.json and merges.txt; by GPT-2's tokenizer or bytes if
// the vocabulary has their size. Returns random tokens when no tokenizer fits. The number of tokens
// is at most 512, fewer for models of more than 40 million parameters, and 64 from 312 million on.
CheckTokens check_tokens(const spec::ModelConfig& model,
                         const std::vector<std::string>& directories);

}  // namespace lm::check
