// SPDX-License-Identifier: Apache-2.0
// Lines on standard error, and properties of the terminal. Lines printed here and the progress line
// (progress.hpp) do not overwrite each other.
#pragma once

#include <string_view>

namespace lm::cli {

bool stderr_is_terminal();
bool stdout_is_terminal();

// Returns the columns of the terminal of a file descriptor; `otherwise` when it is not a terminal
// or the width is unknown.
int terminal_width(int fd, int otherwise);

// Writes `text` and a newline to standard error in one write. Errors are ignored. Thread-safe.
void print_line(std::string_view text);

// Replaces the progress line of the terminal; an empty text removes it. Thread-safe.
void set_status_line(std::string_view text);

}  // namespace lm::cli
