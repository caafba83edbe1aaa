// SPDX-License-Identifier: Apache-2.0
// What every program does around its work: parse, --help, --version, catch Error once, print one
// line "program: object: what", return the exit code. Also --generate-man-options,
// --generate-man-exit-status and --generate-completion bash (hidden), used by the build.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "cli/options.hpp"

namespace lm::cli {

// Parses, runs `body` (or the chosen verb). Returns the exit code for main(): that of the body,
// that of an Error, 3 when memory or standard output gives out, 70 for any other exception. Of a
// run with many ranks (recognised by the launcher's environment) rank 0 alone prints notes and
// complaints about the command line, and other lines begin with the rank and host.
int run_main(int argc, char** argv, Options& options, const std::function<int()>& body = nullptr);

// The arguments as a shell would take them again, for manifests and logs.
std::string command_line(int argc, char** argv);

// Standard output for data. Throws Error(failure) when it cannot be written (a closed pipe ends a
// filter quietly by SIGPIPE instead). `flush` before the program ends is done by run_main.
void write_stdout(std::string_view text);
// What was written so far reaches the reader now. Throws as write_stdout does.
void flush_stdout();

}  // namespace lm::cli
