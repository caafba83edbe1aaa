// SPDX-License-Identifier: Apache-2.0
#include "cli/color.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

namespace lm::cli {
namespace {

// Returns the parameters of ECMA-48's SGR sequence: bold, and a foreground color.
std::string_view sgr_of(Color color) {
    switch (color) {
        case Color::red:
            return "1;31";
        case Color::yellow:
            return "1;33";
        case Color::green:
            return "1;32";
    }
    return "0";
}

}  // namespace

bool shows_color(int fd) {
    const char* unwanted = std::getenv("NO_COLOR");
    const char* term = std::getenv("TERM");
    if ((unwanted && *unwanted) || !term || std::string_view(term) == "dumb") return false;
    return isatty(fd) == 1;
}

std::string colored(Color color, std::string_view text, int fd) {
    if (!shows_color(fd)) return std::string(text);
    return fmt::format("\x1b[{}m{}\x1b[0m", sgr_of(color), text);
}

}  // namespace lm::cli
