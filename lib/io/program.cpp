// SPDX-License-Identifier: Apache-2.0
#include "io/program.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/error.hpp"
#include "base/printable.hpp"
#include "io/checked.hpp"
#include "io/file.hpp"

extern char** environ;

namespace lm::io {

namespace {

struct Pipe {
    Fd read_end, write_end;
};

Pipe open_pipe(const std::string& program) {
    int ends[2] = {};
    if (::pipe2(ends, O_CLOEXEC) != 0)
        system_error(program, "create a pipe to read its output", errno);
    return {Fd(ends[0]), Fd(ends[1])};
}

// Appends what a pipe has, or waits for more. Returns false at its end, or when a pipe with
// O_NONBLOCK is empty.
bool append_from(const Fd& pipe, std::string& text) {
    std::array<char, 65536> block;
    while (true) {
        const ssize_t n = ::read(pipe.get(), block.data(), block.size());
        if (n < 0 && errno == EINTR) continue;
        if (n > 0) text.append(block.data(), static_cast<size_t>(n));
        return n > 0;
    }
}

// Writes the whole lines of `text`, or at the end all of it, to stderr, and removes them from
// `text`. A program of another machine may print anything.
void show(std::string& text, bool at_end) {
    const size_t n = at_end ? text.size() : text.rfind('\n') + 1;
    if (n == 0) return;
    const std::string shown = printable_lines(text.substr(0, n));
    text.erase(0, n);
    for (size_t done = 0; done < shown.size();) {
        const ssize_t written = ::write(STDERR_FILENO, shown.data() + done, shown.size() - done);
        if (written < 0 && errno != EINTR) return;
        if (written > 0) done += static_cast<size_t>(written);
    }
}

// Reads the two pipes of a program until it has ended, and returns its status (wait(2)). Does not
// wait for a process that the program leaves behind with its stderr (ssh with ControlPersist).
int read_until_end(pid_t child, Fd output, Fd errors, std::string& text) {
    constexpr int look_ms = 100;
    std::string lines;
    int status = 0;
    for (bool running = true; running;) {
        pollfd ends[] = {{output.get(), POLLIN, 0}, {errors.get(), POLLIN, 0}};
        ::poll(ends, 2, output.valid() ? -1 : look_ms);
        if (ends[0].revents != 0 && !append_from(output, text)) output = Fd();
        if (ends[1].revents != 0 && !append_from(errors, lines)) errors = Fd();
        show(lines, !errors.valid());
        if (output.valid()) continue;
        const pid_t ended = ::waitpid(child, &status, errors.valid() ? WNOHANG : 0);
        running = ended == 0 || (ended < 0 && errno == EINTR);
    }
    if (errors.valid()) {
        ::fcntl(errors.get(), F_SETFL, O_NONBLOCK);
        while (append_from(errors, lines)) continue;
    }
    show(lines, true);
    return status;
}

}  // namespace

ProgramResult run_program(const std::vector<std::string>& words, Stdout to) {
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    Pipe output = open_pipe(words[0]);
    Pipe errors = open_pipe(words[0]);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(
        &actions, to == Stdout::shown ? STDERR_FILENO : output.write_end.get(), STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, errors.write_end.get(), STDERR_FILENO);
    pid_t child = 0;
    const int error =
        ::posix_spawnp(&child, words[0].c_str(), &actions, nullptr, arguments.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    output.write_end = Fd();
    errors.write_end = Fd();
    if (error == ENOENT) return {127, ""};
    if (error != 0) system_error(words[0], "start", error);
    ProgramResult result;
    const int status = read_until_end(child, std::move(output.read_end), std::move(errors.read_end),
                                      result.output);
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
