// SPDX-License-Identifier: Apache-2.0
// Formats a trained tokenizer as vocab.json and merges.txt for GPT-2, and as tokenizer.json and
// tokenizer_config.json for Hugging Face.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "text/bpe/bpe_trainer.hpp"
#include "text/normalizer/normalizer.hpp"
#include "text/pretokenizer/pretokenizer.hpp"

namespace lm::text {

struct TokenizerDesign {
    std::vector<std::string> special;  // they get the first ids, in this order
    PretokenizerRule rule = PretokenizerRule::gpt2;
    std::optional<NormalizerStep::Kind> form;  // one of the four normal forms
};

// Each function returns the text of one file.
std::string vocab_json(const TrainedBpe& bpe);
std::string merges_txt(const TrainedBpe& bpe);
std::string tokenizer_json(const TrainedBpe& bpe, const TokenizerDesign& design);
std::string tokenizer_config_json(const TokenizerDesign& design);

}  // namespace lm::text
