// SPDX-License-Identifier: Apache-2.0
// The text of --help.
#pragma once

#include <string>

#include "cli/options.hpp"

namespace lm::cli {

// brief: the text of --help, which names some options without describing them. full: the text of
// --help-all.
enum class HelpDetail { brief, full };

// Returns the usage line, examples, operands, commands, and the options under their headings in two
// columns. `width` 0 means the width of the terminal.
std::string help_text(const Options& options, HelpDetail detail, int width = 0);

// Returns the usage line, the examples and the commands, which are printed for a command without
// arguments.
std::string usage_text(const Options& options);

}  // namespace lm::cli
