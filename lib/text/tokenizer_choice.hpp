// SPDX-License-Identifier: Apache-2.0
// Loads the tokenizer that a command line selects. All programs with these options share the rules.
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

// Returns the chosen tokenizer; without any choice GPT-2 from the installed tables. Throws
// Error(usage) for options that exclude each other, Error(failure) for invalid files.
std::shared_ptr<const Tokenizer> load_tokenizer(const TokenizerChoice& choice);

// Returns the padded vocabulary size as Megatron computes it: the next multiple of `divisible_by`,
// or `pad_to`, which must be a multiple of `divisible_by` and at least `vocab_size`. Throws
// Error(usage).
i64 padded_vocab_size(i64 vocab_size, i64 divisible_by, std::optional<i64> pad_to);

}  // namespace lm::text
