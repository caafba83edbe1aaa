// SPDX-License-Identifier: Apache-2.0
// The options that choose a tokenizer, with the same words in every program that takes them.
#pragma once

#include <string_view>

#include "cli/options.hpp"
#include "text/tokenizer_choice.hpp"

namespace lm::config {

// Declares --tokenizer-type, --tokenizer-model, --vocab-file and --merge-file. `without` goes on
// with what the first of them says: what happens when none of them is given.
void add_tokenizer_options(cli::Options& options, text::TokenizerChoice& choice,
                           std::string_view without);

}  // namespace lm::config
