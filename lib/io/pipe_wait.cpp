// SPDX-License-Identifier: Apache-2.0
#include "io/pipe_wait.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "io/checked.hpp"
#include "io/fault.hpp"

namespace lm::io {
namespace {

constexpr double first_writer_s = 10;
constexpr int look_ms = 50;  // between two looks at the writers and at the stop signal

std::atomic<const char* (*)()> stop_signal_of_waits{nullptr};

// Waits look_ms for data or for the end. poll(2) reports the end only if a writer has left since
// this process opened the FIFO.
bool is_readable(const Fd& fd) {
    pollfd readable{fd.get(), POLLIN, 0};
    return ::poll(&readable, 1, look_ms) > 0;
}

// Returns whether `fd` is an empty pipe that no process has open for writing. tee(2) removes no
// byte; for an empty pipe it returns 0 without a writer, and fails with one.
bool has_no_writer(const Fd& fd, const std::string& path) {
    int unused[2];
    if (::pipe2(unused, O_CLOEXEC) != 0) system_error(path, "open a pipe for", errno);
    const Fd out(unused[0]), in(unused[1]);
    return ::tee(fd.get(), in.get(), 1, SPLICE_F_NONBLOCK) == 0;
}

void check_stop(const std::string& path) {
    const auto stop_signal = stop_signal_of_waits.load();
    const char* const name = stop_signal == nullptr ? nullptr : stop_signal();
    if (name != nullptr)
        fail(Exit::run_again, path, "{}: stopped while waiting for the data of a pipe", name);
}

}  // namespace

Fd open_before_writer(const std::string& path) {
    if (fault::read_fails(path)) system_error(path, "open", fault::error_number());
    Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!fd.valid()) return open_read(path);  // throws, except for a regular file with a lease
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0) system_error(path, "get the status", errno);
    if (S_ISDIR(status.st_mode)) run_error(path, "is a directory, expected a file");
    // /dev/zero has no end. /dev/null is empty, and a terminal ends with Ctrl-D.
    const bool is_null = S_ISCHR(status.st_mode) && status.st_rdev == makedev(1, 3);
    const bool is_device = S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode);
    if (is_device && !is_null && ::isatty(fd.get()) != 1)
        run_error(path, "is a {}, expected a file or a pipe", checked::kind_of(status.st_mode));
    ::fcntl(fd.get(), F_SETFL, 0);  // clears O_NONBLOCK
    return fd;
}

void await_first_writer(const Fd& fd, const std::string& path) {
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0 || !S_ISFIFO(status.st_mode)) return;
    const Stopwatch waited;
    while (!is_readable(fd) && has_no_writer(fd, path)) {
        check_stop(path);
        if (waited.elapsed_s() > first_writer_s)
            run_error(path, "is a FIFO that no process writes: expected a file");
    }
}

void await_data(const Fd& fd, const std::string& path) {
    while (!is_readable(fd) && !has_no_writer(fd, path)) check_stop(path);
}

void end_waits_on(const char* (*stop_signal)()) {
    stop_signal_of_waits.store(stop_signal);
}

}  // namespace lm::io
