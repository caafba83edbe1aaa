// SPDX-License-Identifier: Apache-2.0
#include "cluster/stress.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>

#include "base/error.hpp"
#include "io/file.hpp"

namespace lm::cluster {
namespace {

constexpr i64 chunk_bytes = i64{16} << 20;
constexpr i64 page_bytes = 4096;

// How far the child came; it lies in memory that parent and child share.
struct Progress {
    volatile i64 allocated = 0;
    volatile i64 touched = 0;
    volatile int error = 0;
};

// Writes a word into every page and reads it back. False: a word came back wrong.
bool touch(void* memory, i64 bytes, i64 seed) {
    auto* words = static_cast<volatile i64*>(memory);
    constexpr i64 stride = page_bytes / static_cast<i64>(sizeof(i64));
    const i64 n = bytes / page_bytes;
    for (i64 page = 0; page < n; ++page) words[page * stride] = seed + page;
    for (i64 page = 0; page < n; ++page) {
        if (words[page * stride] != seed + page) return false;
    }
    return true;
}

// Runs in the child: system calls only. Returns an errno.
int allocate_and_touch(int fd, i64 bytes, Progress& progress) {
    for (i64 done = 0; done < bytes; done += chunk_bytes) {
        const i64 n = std::min(chunk_bytes, bytes - done);
        // tmpfs takes the pages now, so that a full file system is an error here and not a SIGBUS.
        if (fallocate(fd, 0, done, n) != 0) return errno;
        progress.allocated = done + n;
        void* memory =
            mmap(nullptr, static_cast<size_t>(n), PROT_READ | PROT_WRITE, MAP_SHARED, fd, done);
        if (memory == MAP_FAILED) return errno;
        const bool good = touch(memory, n, done);
        munmap(memory, static_cast<size_t>(n));
        if (!good) return EIO;
        progress.touched = done + n;
    }
    return 0;
}

std::string death_of(int status) {
    const int signal = WTERMSIG(status);
    if (signal == SIGBUS) return "bus error: the file system is full";
    if (signal == SIGKILL) return "killed: a memory limit (control group or host) was reached";
    return fmt::format("died by signal {}", signal);
}

}  // namespace

StressResult stress_shared_memory(const std::string& directory, i64 bytes) {
    const io::Fd fd(open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (!fd.valid()) run_error(directory, "{}", std::strerror(errno));
    void* shared =
        mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) run_error("memory", "{}", std::strerror(errno));
    auto* progress = new (shared) Progress;
    const auto start = std::chrono::steady_clock::now();
    const pid_t child = fork();
    if (child < 0) run_error("fork", "{}", std::strerror(errno));
    if (child == 0) {
        progress->error = allocate_and_touch(fd.get(), bytes, *progress);
        _exit(0);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    StressResult result;
    result.allocated = progress->allocated;
    result.touched = progress->touched;
    result.seconds = elapsed.count();
    if (WIFSIGNALED(status)) {
        result.reason = death_of(status);
    } else if (progress->error != 0) {
        result.reason = std::strerror(progress->error);
    }
    result.passed = result.reason.empty();
    munmap(shared, page_bytes);
    return result;
}

}  // namespace lm::cluster
