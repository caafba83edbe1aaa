// SPDX-License-Identifier: Apache-2.0
// Colors on a terminal: problems are red, warnings yellow, the best row of a table green. A pipe, a
// file, TERM=dumb and NO_COLOR (no-color.org) get plain text.
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
