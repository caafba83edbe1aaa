// SPDX-License-Identifier: Apache-2.0
// What every program does around its work: parse, --help, --version, catch Error once, print one
// line "program: object: what", return the exit code. Also --generate-man-options and
// --generate-completion BASH (hidden), used by the build.
#pragma once

#include <functional>

#include "cli/options.hpp"

namespace lm::cli {

// Declares options, parses, runs `body` (or the chosen verb). Returns the exit code for main().
int run_main(int argc, char** argv, Options& options, const std::function<int()>& body = nullptr);

// Standard output for data. Throws Error(failure) when it cannot be written (a closed pipe ends a
// filter quietly by SIGPIPE instead). `flush` before the program ends is done by run_main.
void write_stdout(std::string_view text);

}  // namespace lm::cli
