// SPDX-License-Identifier: Apache-2.0
// Completion in the shell.
#pragma once

#include <string>

#include "cli/options.hpp"

namespace lm::cli {

// Returns a bash script to source: a function over arrays that are written from the option table.
// The first word completes to commands, then options of the command, choices and file names.
std::string bash_completion(const Options& options);

}  // namespace lm::cli
