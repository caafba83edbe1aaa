// SPDX-License-Identifier: Apache-2.0
// Lines for people on standard error, and what is known about the terminal. A line printed here and
// a progress line (progress.hpp) do not run into each other.
#pragma once

#include <string_view>

namespace lm::cli {

bool stderr_is_terminal();
bool stdout_is_terminal();

// Columns of the terminal behind a file descriptor; `otherwise` when it is none or does not say.
int terminal_width(int fd, int otherwise);

// Writes `text` and a line end to standard error in one write; failures are ignored. Thread-safe.
void print_line(std::string_view text);

// Replaces the progress line of a terminal; an empty text removes it. Thread-safe.
void set_status_line(std::string_view text);

}  // namespace lm::cli
