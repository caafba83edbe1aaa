// SPDX-License-Identifier: Apache-2.0
// Runs a function in a child process and collects what it wrote and how it ended.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "support/catch.hpp"

struct Ended {
    int code = -1;  // exit code; -1 when a signal ended it
    int signal = 0;
    std::string out;  // standard output
    std::string err;  // standard error
};

inline std::string read_all(int fd) {
    std::string text;
    char buffer[4096];
    for (ssize_t n = 0; (n = read(fd, buffer, sizeof buffer)) > 0;) {
        text.append(buffer, static_cast<size_t>(n));
    }
    return text;
}

inline void set_status(Ended& ended, int status) {
    if (WIFEXITED(status)) ended.code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) ended.signal = WTERMSIG(status);
}

// Standard output and standard error of the child must each fit into a pipe (64 KiB).
inline Ended in_child(const std::function<int()>& work) {
    int out[2];
    int err[2];
    REQUIRE(pipe(out) == 0);
    REQUIRE(pipe(err) == 0);
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        dup2(out[1], 1);
        dup2(err[1], 2);
        for (const int fd : {out[0], out[1], err[0], err[1]}) close(fd);
        _exit(work());
    }
    close(out[1]);
    close(err[1]);
    Ended ended;
    ended.out = read_all(out[0]);
    ended.err = read_all(err[0]);
    close(out[0]);
    close(err[0]);
    int status = 0;
    waitpid(child, &status, 0);
    set_status(ended, status);
    return ended;
}
