// SPDX-License-Identifier: Apache-2.0
#include "io/program.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/error.hpp"
#include "io/checked.hpp"
#include "io/file.hpp"

extern char** environ;

namespace lm::io {

ProgramResult run_program(const std::vector<std::string>& words, Stdout to) {
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    int ends[2] = {};
    if (::pipe2(ends, O_CLOEXEC) != 0)
        system_error(words[0], "create a pipe to read its output", errno);
    const Fd read_end(ends[0]);
    Fd write_end(ends[1]);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions, to == Stdout::shown ? 2 : write_end.get(), 1);
    pid_t child = 0;
    const int error =
        ::posix_spawnp(&child, words[0].c_str(), &actions, nullptr, arguments.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    write_end = Fd();
    if (error == ENOENT) return {127, ""};
    if (error != 0) system_error(words[0], "start", error);
    ProgramResult result;
    std::array<char, 65536> block;
    while (true) {
        const ssize_t n = ::read(read_end.get(), block.data(), block.size());
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        result.output.append(block.data(), static_cast<size_t>(n));
    }
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return result;
}

void require_success(const std::string& target, const std::string& program,
                     const ProgramResult& result) {
    if (result.code == 127)
        run_error(program, "cannot be started, or is missing at {}: install it", target);
    if (result.code != 0) run_error(target, "{} failed (exit code {})", program, result.code);
}

std::string must_run(const std::string& target, const std::vector<std::string>& words, Stdout to) {
    const ProgramResult result = run_program(words, to);
    require_success(target, words[0], result);
    return result.output;
}

std::string shell_quoted(const std::string& text) {
    std::string quoted = "'";
    for (const char c : text) {
        if (c == '\'') {
            quoted += "'\\''";
        } else {
            quoted += c;
        }
    }
    return quoted + "'";
}

}  // namespace lm::io
