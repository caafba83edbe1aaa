// SPDX-License-Identifier: Apache-2.0
// Writes the text of a trained tokenizer's files: vocab.json and merges.txt for GPT-2,
// tokenizer.json and tokenizer_config.json for Hugging Face.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "text/bpe/bpe_trainer.hpp"
#include "text/normalizer/normalizer.hpp"
#include "text/pretokenizer/pretokenizer.hpp"

namespace lm::text {

struct TokenizerDesign {
    std::vector<std::string> special;  // special tokens, which get the first ids in this order
    PretokenizerRule rule = PretokenizerRule::gpt2;
    std::optional<NormalizerStep::Kind> form;  // must be one of the four normal forms
};

// Each function returns the text of one file.
std::string vocab_json(const TrainedBpe& bpe);
std::string merges_txt(const TrainedBpe& bpe);
std::string tokenizer_json(const TrainedBpe& bpe, const TokenizerDesign& design);
std::string tokenizer_config_json(const TokenizerDesign& design);

}  // namespace lm::text
