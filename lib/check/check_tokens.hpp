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

// Returns the start of an installed English text as tokens of the model. The tokenizer is the first
// one found in `directories` (tokenizer.json, or vocab.json and merges.txt). If no directory has
// one, the GPT-2 tokenizer or the byte tokenizer is used, whichever has the size of the model's
// vocabulary. Returns 64 random tokens when neither has this size, when the tokenizer found is not
// supported, or when a token of the text is not in the vocabulary; `what` states the reason.
// Returns at most 512 tokens, fewer for a model of more than 39 million parameters, and 64 for 312
// million or more. Never returns more tokens than the model has positions.
CheckTokens check_tokens(const spec::ModelConfig& model,
                         const std::vector<std::string>& directories);

}  // namespace lm::check
