// SPDX-License-Identifier: Apache-2.0
// Colors on a terminal: problems are red, warnings yellow, the best row of a table green. Text is
// plain on a pipe or in a file, with TERM=dumb, and with NO_COLOR (no-color.org).
#pragma once

#include <string>
#include <string_view>

namespace lm::cli {

enum class Color { red, yellow, green };

// Returns whether the descriptor `fd` is a terminal that shows colors and NO_COLOR is not set.
bool shows_color(int fd);

// Returns `text` in bold and in `color` if shows_color(fd) is true, else unchanged. `text` contains
// no line end.
std::string colored(Color color, std::string_view text, int fd);

}  // namespace lm::cli
