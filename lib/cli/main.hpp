// SPDX-License-Identifier: Apache-2.0
// The frame of every program: parses the command line, handles --help and --version, catches Error
// once, prints "program: object: problem: remedy" and returns the exit code. The build uses three
// hidden options: "--generate-completion bash", --generate-man-options and
// --generate-man-exit-status.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/error.hpp"
#include "base/printable.hpp"
#include "cli/options.hpp"

namespace lm::cli {

// Parses the command line and runs `body`, or the chosen verb. Returns the exit code for main():
// the code of the body or of an Error, 3 when memory runs out or standard output cannot be written,
// 70 for any other exception. When a launcher started several ranks, only rank 0 prints notes and
// errors of the command line. Each line that another rank prints starts with the rank and its host.
// Calls `on_error` with each error that it prints.
int run_main(int argc, char** argv, Options& options, const std::function<int()>& body = nullptr,
             const std::function<void(const Error&)>& on_error = nullptr);

// Returns the word, quoted if a shell would split or change it.
std::string shell_word(std::string_view word);
// Returns the arguments as one line, quoted for a shell. Manifests and logs contain this line.
std::string command_line(int argc, char** argv);

// After this call, run_main() prints warnings and errors, but no notes.
void hide_notes();

// Writes to standard output through a buffer; run_main() flushes it at the end. Throws
// Error(failure) when writing fails. Writing to a closed pipe ends the process by SIGPIPE, unless
// ignore_sigpipe() was called.
void write_stdout(std::string_view text);
// Writes a text for a person to standard output, as write_stdout() does. Texts among the arguments
// become printable(): names and fields of files must not change the terminal or add lines.
template <typename... Args>
void write_text(fmt::format_string<Args...> format, const Args&... args) {
    const auto safe = [](const auto& value) -> decltype(auto) {
        if constexpr (std::is_convertible_v<decltype(value), std::string_view>) {
            return printable(value);
        } else {
            return value;
        }
    };
    write_stdout(fmt::format(fmt::runtime(fmt::string_view(format)), safe(args)...));
}
// Writes all buffered output. Throws as write_stdout() does.
void flush_stdout();

}  // namespace lm::cli
