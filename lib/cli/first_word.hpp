// SPDX-License-Identifier: Apache-2.0
// Messages about a word that is neither a command nor an operand of the program.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/options.hpp"

namespace lm::cli {

// The commands of a program, and the options that the program accepts without a command.
struct Commands {
    std::vector<std::string> names;
    const std::vector<Option>& options;
    // Words that are not commands. The second word of each pair is the command that a message
    // suggests instead of the first word.
    std::vector<std::pair<std::string, std::string>> other_words = {};
};

// Returns "use one of ls, prune", or "use --input without a command, or one of info, cat".
std::string commands_text(const Commands& commands);
// Throws Error(usage), which suggests a command, when the name of the command is similar to `word`,
// or when `word` is one of other_words.
void refuse_near_command(const std::string& word, const Commands& commands);
// Throws Error(usage) when a program has commands, but no operands, and its first argument `word`
// is neither an option nor empty. Expects that `word` is not a command.
void check_first_word(const std::string& word, const Commands& commands);
// Returns "--option operand" with the option that the user probably meant: an option that has
// `operand` among its choices or words, or, for a path, the option with is_usual. Returns "" when
// no option matches.
std::string meant_option(const std::string& operand, const std::vector<Option>& options);

}  // namespace lm::cli
