// SPDX-License-Identifier: Apache-2.0
// run_main: exit codes, the line on standard error, and closed or failing standard streams.
#include <fcntl.h>

#include <csignal>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/machine.hpp"
#include "child.hpp"
#include "cli/main.hpp"
#include "support/catch.hpp"

using lm::cli::Options;

namespace {

int run(std::vector<std::string> arguments, const std::function<int()>& body) {
    arguments.insert(arguments.begin(), "lm-x");
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    bool json = false;
    Options options("lm-x", "test run_main");
    options.flag("--json", &json, "print JSON");
    options.accepted("--num-workers", 1, "data is read by mmap");
    Options& verb = options.verb("sub", "a verb", body);
    verb.flag("--all", &json, "all");
    return lm::cli::run_main(static_cast<int>(arguments.size()), argv.data(), options, body);
}

Ended run_child(const std::vector<std::string>& arguments, const std::function<int()>& body) {
    return in_child([&] { return run(arguments, body); });
}

}  // namespace

TEST_CASE("the code of the body is the exit code") {
    CHECK(run_child({}, [] { return 0; }).code == 0);
    CHECK(run_child({}, [] { return 1; }).code == 1);
    CHECK(run_child({"sub"}, [] { return 75; }).code == 75);
}

TEST_CASE("help and version go to standard output") {
    const Ended help = run_child({"--help"}, [] { return 9; });
    CHECK(help.code == 0);
    CHECK_THAT(help.out, StartsWith("Usage: lm-x [OPTION]...\n"));
    CHECK(help.err.empty());
    CHECK_THAT(run_child({"sub", "-h"}, [] { return 9; }).out, StartsWith("Usage: lm-x sub "));
    CHECK_THAT(run_child({"--version"}, [] { return 9; }).out, StartsWith("lm-x (lm-utils) "));
}

TEST_CASE("errors are one line and the exit code") {
    const Ended wrong = run_child({"--jsom"}, [] { return 0; });
    CHECK(wrong.code == 2);
    CHECK(wrong.out.empty());
    CHECK_THAT(wrong.err,
               StartsWith("lm-x: --jsom: ") && EndsWith(" --json?\nTry 'lm-x --help'.\n"));
    const Ended verb = run_child({"sub", "--al"}, [] { return 0; });
    CHECK_THAT(verb.err,
               StartsWith("lm-x: --al: ") && EndsWith(" --all?\nTry 'lm-x sub --help'.\n"));

    const Ended several = run_child({"--jsom", "--all"}, [] { return 0; });
    CHECK_THAT(several.err, StartsWith("lm-x: --jsom: ") &&
                                HasInOrder(" --json?\nlm-x: --all: ", "\nTry 'lm-x --help'.\n"));

    const Ended operand =
        run_child({"--json"}, []() -> int { lm::usage_error("OUT", "is missing"); });
    CHECK(operand.err == "lm-x: OUT: is missing\nTry 'lm-x --help'.\n");
    const Ended file =
        run_child({"--json"}, []() -> int { lm::usage_error("a/b", "is not a model"); });
    CHECK(file.code == 2);
    CHECK(file.err == "lm-x: a/b: is not a model\n");
    const auto has_hint = [](std::vector<std::string> arguments, const char* object,
                             const char* text) {
        return run_child(arguments, [=]() -> int {
                   lm::usage_error(object, "{}", text);
               }).err.find("\nTry 'lm-x") != std::string::npos;
    };
    CHECK(!has_hint({"--json"}, "--log-file", "no/x: the directory no does not exist"));
    CHECK(!has_hint({"--json"}, "--save", "x: is not a directory"));
    CHECK(!has_hint({"--json"}, "--prompts", ". is a directory"));
    CHECK(!has_hint({"--json"}, ".", "is not a file"));
    CHECK(!has_hint({"--json"}, "--log-file", "x: . cannot be written: Permission denied"));
    CHECK(has_hint({"--json"}, "--save-interval", "needs --save DIR"));
    CHECK(has_hint({"--json"}, "x", "unexpected operand: only --node checks paths"));
    CHECK(has_hint({"sub", "--all"}, "sub", "give a rule"));
    CHECK(!has_hint({"sub", "--all"}, "ub", "give a rule"));

    const Ended failed = run_child({}, []() -> int { lm::run_error("a\nb", "is missing"); });
    CHECK(failed.code == 3);
    CHECK(failed.err == "lm-x: a\\nb: is missing\n");
    const Ended memory = run_child({}, []() -> int { throw std::bad_alloc(); });
    CHECK(memory.code == 3);
    CHECK(memory.err == "lm-x: out of memory\n");
    const Ended bug = run_child({}, []() -> int { throw std::runtime_error("odd"); });
    CHECK(bug.code == 70);
    CHECK_THAT(bug.err, StartsWith("lm-x: internal error: odd: "));
}

TEST_CASE("notes and warnings") {
    const auto body = [] {
        lm::note("--load: nothing there yet: starting from the beginning");
        lm::warn("x.bin: larger than its index states");
        return 0;
    };
    CHECK(run_child({"--num-workers", "2"}, body).err ==
          "lm-x: note: --num-workers: ignored: data is read by mmap\n"
          "lm-x: note: --load: nothing there yet: starting from the beginning\n"
          "lm-x: warning: x.bin: larger than its index states\n");
}

TEST_CASE(
    "of several ranks only rank 0 prints errors of the command line, and others have a place") {
    const auto as_rank = [](const char* rank, const std::vector<std::string>& arguments,
                            const std::string& device = "") {
        return in_child([&] {
            setenv("LM_HOST", "n7", 1);
            lm::set_own_device(device);
            setenv("OMPI_COMM_WORLD_RANK", rank, 1);
            setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
            return run(arguments, []() -> int {
                lm::note("a note");
                lm::run_error("disk", "is full");
            });
        });
    };
    CHECK(as_rank("0", {}).err == "lm-x: note: a note\nlm-x: rank 0 on n7: disk: is full\n");
    CHECK(as_rank("0", {"--nonsense"}).err.starts_with("lm-x: --nonsense: "));
    const Ended third = as_rank("3", {}, "cuda:3 (NVIDIA H100)");
    CHECK(third.code == 3);
    CHECK(third.err == "lm-x: rank 3 on n7, cuda:3 (NVIDIA H100): disk: is full\n");
    CHECK(as_rank("3", {"--nonsense"}).code == 2);
    CHECK(as_rank("3", {"--nonsense"}).err.empty());
}

TEST_CASE("a failed write to standard output is an error") {
    const auto body = [] {
        lm::cli::write_stdout("data\n");
        return 0;
    };
    const Ended full = in_child([&] {
        dup2(open("/dev/full", O_WRONLY), 1);
        return run({}, body);
    });
    CHECK(full.code == 3);
    CHECK(full.err == "lm-x: standard output: No space left on device\n");
    const Ended closed = in_child([&] {
        close(1);
        return run({}, body);
    });
    CHECK(closed.code == 3);
    CHECK(closed.err == "lm-x: standard output: Bad file descriptor\n");
    const Ended error_stays = in_child([&] {
        dup2(open("/dev/full", O_WRONLY), 1);
        return run({}, [] {
            lm::cli::write_stdout("data\n");
            return 75;
        });
    });
    CHECK(error_stays.code == 75);
}

TEST_CASE("a closed pipe ends a filter without a message") {
    const Ended ended = in_child([] {
        std::signal(SIGPIPE, SIG_DFL);
        int fds[2];
        if (pipe(fds) != 0) return 99;
        dup2(fds[1], 1);
        close(fds[0]);
        close(fds[1]);
        return run({}, [] {
            lm::cli::write_stdout("data\n");
            return 0;
        });
    });
    CHECK(ended.signal == SIGPIPE);
    CHECK(ended.err.empty());
}

TEST_CASE("files never get the number of a closed standard descriptor") {
    const Ended ended = in_child([] {
        close(0);
        return run({}, [] { return open("/dev/null", O_RDONLY) > 2 ? 0 : 99; });
    });
    CHECK(ended.code == 0);
}

TEST_CASE("hidden options for the build") {
    CHECK_THAT(run_child({"--generate-man-options"}, nullptr).out, StartsWith(".Sh OPTIONS\n"));
    CHECK_THAT(run_child({"--generate-man-exit-status"}, nullptr).out,
               StartsWith(".Sh EXIT STATUS\n"));
    CHECK_THAT(run_child({"--generate-completion", "bash"}, nullptr).out,
               StartsWith("# bash completion of lm-x"));
}
