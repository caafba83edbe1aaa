// SPDX-License-Identifier: Apache-2.0
// Lines on standard error, and properties of the terminal. Lines printed here and the progress line
// (progress_line.hpp) do not overwrite each other.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lm::cli {

bool stderr_is_terminal();
bool stdout_is_terminal();

// Returns the number of columns of the terminal that `fd` refers to, or `otherwise` when `fd` is
// not a terminal or the width is unknown.
int terminal_width(int fd, int otherwise);

// Joins the printable() cells of a line of a table with two spaces, and adds a newline. A cell that
// would pass column `width` begins a new line, indented by four spaces. So lines whose cells have
// the same widths are divided at the same cells. The words of a cell that is longer than a line are
// wrapped. With `width` 0 the text is one line.
std::string folded_line(const std::vector<std::string>& cells, size_t width);

// Returns `text` as lines of at most `width` columns, broken between words. All lines but the first
// are indented by four spaces. A word that is longer than a line is not divided. Returns `text`
// unchanged when it fits, and with `width` 0.
std::string folded_message(std::string_view text, size_t width);

// Returns `text` with each line of dashes shortened to `width` columns. With `width` 0, returns
// `text` unchanged.
std::string with_short_rules(std::string text, size_t width);

// Writes `text` and a newline to standard error in one write. Errors are ignored. Thread-safe.
void print_line(std::string_view text);

// Replaces the progress line on the terminal. An empty text removes the progress line, so that a
// line of standard output can take its place. Thread-safe.
void set_status_line(std::string_view text);

}  // namespace lm::cli
