// SPDX-License-Identifier: Apache-2.0
#include "io/program.hpp"

#include "base/error.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::io;

TEST_CASE("a program gets its arguments as they are, and its stdout is returned") {
    const ProgramResult result = run_program({"printf", "%s|", "a b", "$x", ""});
    CHECK(result.code == 0);
    CHECK(result.output == "a b|$x||");
    CHECK(run_program({"cat"}).output.empty());  // an empty stdin
}

TEST_CASE("the exit code is that of the program, 128 + N for signal N, 127 if it is missing") {
    CHECK(run_program({"sh", "-c", "exit 7"}).code == 7);
    CHECK(run_program({"sh", "-c", "kill -9 $$"}).code == 128 + 9);
    CHECK(run_program({"lm-no-such-program"}).code == 127);
}

TEST_CASE("must_run throws when the program fails") {
    CHECK(must_run("store:x", {"echo", "done"}) == "done\n");
    CHECK_THROWS_WITH(must_run("store:x", {"sh", "-c", "exit 7"}),
                      HasInOrder("store:x: ", "sh ", "exit code 7"));
    CHECK_THROWS_WITH(must_run("store:x", {"lm-no-such-program"}),
                      StartsWith("lm-no-such-program: "));
}

TEST_CASE("a shell reads a quoted text as one word with the same characters") {
    for (const char* text : {"plain", "two words", "it's", "$HOME `id` \\ \"", "''", ""}) {
        const std::string command = std::string("printf %s ") + shell_quoted(text);
        CHECK(run_program({"sh", "-c", command}).output == text);
    }
}
