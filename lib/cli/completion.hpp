// SPDX-License-Identifier: Apache-2.0
// The generators of shell completion.
#pragma once

#include <string>

#include "cli/options.hpp"

namespace lm::cli {

// The generated scripts complete the first argument as a command. They complete later arguments as
// options of the command, choices, dataset prefixes, steps of checkpoint directories or file names.

// Returns a bash script to source.
std::string bash_completion(const Options& options);
// Returns a function file `_PROGRAM` of zsh, for a directory of $fpath.
std::string zsh_completion(const Options& options);
// Returns a file PROGRAM.fish for a directory of $fish_complete_path.
std::string fish_completion(const Options& options);

}  // namespace lm::cli
