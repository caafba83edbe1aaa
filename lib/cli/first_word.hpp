// SPDX-License-Identifier: Apache-2.0
// Messages about a word that is neither a command nor an operand of the program.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/options.hpp"

namespace lm::cli {

// The commands of a program, and the options that it has without a command.
struct Commands {
    std::vector<std::string> names;
    const std::vector<Option>& options;
    // Words that are not commands, each with the command that a message suggests for it.
    std::vector<std::pair<std::string, std::string>> other_words = {};
};

// Returns "use one of ls, prune", or "use --input without a command, or one of info, cat".
std::string commands_text(const Commands& commands);
// Throws Error(usage) when a command is called like `word`, or when a user may mean it by `word`.
void refuse_near_command(const std::string& word, const Commands& commands);
// Throws Error(usage) when a program has commands, but no operands, and its first argument `word`
// is neither an option nor empty. Expects that `word` is not a command.
void check_first_word(const std::string& word, const Commands& commands);
// Returns "--option operand" for the option that a user may mean by the unexpected `operand`: one
// that has this choice, or the usual one for a path. Returns "" when there is none.
std::string meant_option(const std::string& operand, const std::vector<Option>& options);

}  // namespace lm::cli
