// SPDX-License-Identifier: Apache-2.0
// The text of --help.
#pragma once

#include <string>

#include "cli/options.hpp"

namespace lm::cli {

// Returns the usage line, operands, commands, and the options under their headings in two columns.
// `width` 0 means the width of the terminal.
std::string help_text(const Options& options, int width = 0);

}  // namespace lm::cli
