// SPDX-License-Identifier: Apache-2.0
// Which tokenizer a command line means: the same rules for every program that takes these options.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "text/tokenizer.hpp"

namespace lm::text {

struct TokenizerChoice {
    std::optional<std::string> type;        // --tokenizer-type
    std::optional<std::string> vocab_file;  // --vocab-file
    std::optional<std::string> merge_file;  // --merge-file
    std::optional<std::string> model;       // --tokenizer-model, --tokenizer-name-or-path
    std::optional<std::string> special;     // --special-in-text plain|parse
};

// With nothing chosen: GPT-2 from the tables installed with the toolkit. Throws Error(usage) for a
// combination that makes no sense, Error(failure) for files that are not right.
std::shared_ptr<const Tokenizer> load_tokenizer(const TokenizerChoice& choice);

// Megatron's padding: the next multiple of `divisible_by`, or `pad_to` when given (then it must not
// be smaller than the vocabulary and a multiple of `divisible_by`). Throws Error(usage).
i64 padded_vocab_size(i64 vocab_size, i64 divisible_by, std::optional<i64> pad_to);

}  // namespace lm::text
