// SPDX-License-Identifier: Apache-2.0
#include "io/program.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "base/error.hpp"
#include "io/file.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

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

TEST_CASE("control characters of a program do not reach stderr") {
    const test::TempDir dir;
    const std::string path = dir / "stderr";
    const int file = ::open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    const int saved = ::dup(STDERR_FILENO);
    ::dup2(file, STDERR_FILENO);
    const ProgramResult result =
        run_program({"sh", "-c", "printf 'a\\033[2Jb\\nc' >&2; echo out; seq 100000 >&2"});
    // The background process keeps stderr open.
    const ProgramResult shown = run_program({"sh", "-c", "sleep 1000 >/dev/null & echo $!"});
    const ProgramResult end =
        run_program({"kill", shown.output.substr(0, shown.output.find('\n'))});
    ::dup2(saved, STDERR_FILENO);
    ::close(saved);
    ::close(file);
    CHECK(result.output == "out\n");
    CHECK(end.code == 0);
    const std::string text = read_file(path);
    CHECK(text.starts_with("a\\x1b[2Jb\nc1\n2\n"));
    CHECK(text.ends_with("\n100000\n"));
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
