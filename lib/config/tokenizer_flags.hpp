// SPDX-License-Identifier: Apache-2.0
// The options that choose a tokenizer, shared by all programs.
#pragma once

#include <string_view>

#include "cli/options.hpp"
#include "text/choice/tokenizer_choice.hpp"

namespace lm::config {

// Declares --tokenizer-type, --tokenizer-model, --vocab-file and --merge-file. `without` is the
// last part of the help text of --tokenizer-type. It states what the program does without a
// tokenizer.
void add_tokenizer_options(cli::Options& options, text::TokenizerChoice& choice,
                           std::string_view without);

}  // namespace lm::config
