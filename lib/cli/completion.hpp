// SPDX-License-Identifier: Apache-2.0
// The generator of shell completion.
#pragma once

#include <string>

#include "cli/options.hpp"

namespace lm::cli {

// Returns a bash script to source: a function and arrays generated from the option table. The
// script completes the first word to commands, and later words to options of the command, choices
// and file names.
std::string bash_completion(const Options& options);

}  // namespace lm::cli
