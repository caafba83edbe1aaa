// SPDX-License-Identifier: Apache-2.0
// The generated sections of the man pages, in mdoc(7). The other sections are written by hand, in
// man/lm-X.1.in.
#pragma once

#include <string>

#include "cli/options.hpp"

namespace lm::cli {

// Returns ".Sh OPTIONS" with the options of the program and of each command.
std::string man_options(const Options& options);
// Returns ".Sh EXIT STATUS" with the codes that the program may return.
std::string man_exit_status(const Options& options);

}  // namespace lm::cli
