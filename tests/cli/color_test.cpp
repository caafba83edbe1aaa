// SPDX-License-Identifier: Apache-2.0
// Colors on a pseudo-terminal, and their absence elsewhere.
#include <pty.h>

#include <cstdlib>
#include <string>

#include "child.hpp"
#include "cli/color.hpp"
#include "support/catch.hpp"

using lm::cli::Color;

namespace {

// Returns "x" in red on a terminal with these variables; nullptr removes a variable.
std::string red_with(const char* term, const char* no_color) {
    int master = -1;
    std::fflush(stdout);
    const pid_t child = forkpty(&master, nullptr, nullptr, nullptr);
    REQUIRE(child >= 0);
    if (child == 0) {
        term ? setenv("TERM", term, 1) : unsetenv("TERM");
        no_color ? setenv("NO_COLOR", no_color, 1) : unsetenv("NO_COLOR");
        const std::string text = lm::cli::colored(Color::red, "x", STDERR_FILENO);
        _exit(write(STDERR_FILENO, text.data(), text.size()) < 0);
    }
    const std::string text = read_all(master);
    int status = 0;
    waitpid(child, &status, 0);
    close(master);
    return text;
}

}  // namespace

TEST_CASE("a terminal shows colors unless NO_COLOR or TERM=dumb is set") {
    CHECK(red_with("xterm", nullptr) == "\x1b[1;31mx\x1b[0m");
    CHECK(red_with("xterm", "") == "\x1b[1;31mx\x1b[0m");  // no-color.org: "not an empty string"
    CHECK(red_with("xterm", "1") == "x");
    CHECK(red_with("dumb", nullptr) == "x");
    CHECK(red_with(nullptr, nullptr) == "x");
}

TEST_CASE("a pipe shows no colors") {
    const Ended ended = in_child([] {
        setenv("TERM", "xterm", 1);
        unsetenv("NO_COLOR");
        std::fputs(lm::cli::colored(Color::green, "x", STDERR_FILENO).c_str(), stderr);
        return 0;
    });
    CHECK(ended.err == "x");
}
