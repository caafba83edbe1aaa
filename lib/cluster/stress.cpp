// SPDX-License-Identifier: Apache-2.0
#include "cluster/stress.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <new>
#include <optional>

#include "base/error.hpp"
#include "base/units.hpp"
#include "cluster/limits.hpp"

namespace lm::cluster {
namespace {

constexpr i64 chunk_bytes = i64{16} << 20;
constexpr i64 page_bytes = 4096;

// The child's progress, in memory that parent and child share.
struct ChildProgress {
    volatile i64 allocated = 0;
    volatile i64 touched = 0;
    volatile int error = 0;
};

// Writes a word to every page and reads all words back. Returns false when a word differs.
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

// Makes this process the first victim of the out-of-memory killer, and makes it end when its parent
// ends. The test also works without these settings, so errors are ignored.
void prefer_as_oom_victim(pid_t parent) {
    const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!write(fd, "1000", 4);
        close(fd);
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(0);
}

int allocate_and_touch(int fd, i64 bytes, ChildProgress& progress) {
    for (i64 done = 0; done < bytes; done += chunk_bytes) {
        const i64 n = std::min(chunk_bytes, bytes - done);
        // Allocates the pages first, because fallocate() returns an error when the file system is
        // full. Without this call, touch() would cause a SIGBUS.
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

// Runs in the child after fork(), so it makes system calls only. The file has no name (O_TMPFILE),
// so the end of the child frees its memory. Returns 0 or an errno.
int run_in_child(const char* directory, i64 bytes, ChildProgress& progress) {
    const int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    return fd < 0 ? errno : allocate_and_touch(fd, bytes, progress);
}

// Returns the reason to refuse a test of `bytes`, or an empty text when the test may start.
std::string refusal(const std::string& directory, i64 bytes) {
    struct statvfs status = {};
    if (statvfs(directory.c_str(), &status) != 0) {
        run_error(directory, "{}", std::strerror(errno));
    }
    const auto blocks = static_cast<i64>(geteuid() == 0 ? status.f_bfree : status.f_bavail);
    const i64 free = blocks * static_cast<i64>(status.f_frsize);
    // A tmpfs without a size limit reports 0 blocks.
    if (status.f_blocks != 0 && bytes > free) {
        return fmt::format("not tried: the file system has {} free, less than the requested {}",
                           human_size(free), human_size(bytes));
    }
    const std::optional<MemoryRoom> room = memory_room();
    if (!room) return {};
    const i64 spare = std::max<i64>(0, room->bytes - stress_margin(room->bytes));
    if (bytes <= spare) return {};
    return fmt::format(
        "not tried: {0} exceeds the safe amount of {1} ({3}: {2}, minus a reserve of {4})",
        human_size(bytes), human_size(spare), human_size(room->bytes), room->whose,
        human_size(stress_margin(room->bytes)));
}

std::string death_of(int status) {
    const int signal = WTERMSIG(status);
    if (signal == SIGBUS) return "bus error: the file system is full";
    if (signal == SIGKILL) return "killed: a memory limit (control group or host) was reached";
    return fmt::format("ended by signal {}", signal);
}

}  // namespace

StressResult stress_shared_memory(const std::string& directory, i64 bytes) {
    if (std::string reason = refusal(directory, bytes); !reason.empty()) {
        return {.reason = std::move(reason)};
    }
    void* shared =
        mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) run_error("memory", "{}", std::strerror(errno));
    auto* progress = new (shared) ChildProgress;
    const auto start = std::chrono::steady_clock::now();
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child < 0) run_error("fork", "{}", std::strerror(errno));
    if (child == 0) {
        prefer_as_oom_victim(parent);
        progress->error = run_in_child(directory.c_str(), bytes, *progress);
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
