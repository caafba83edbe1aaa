// SPDX-License-Identifier: Apache-2.0
// Why faults are injected inside of lib/io, in the programs that users run.
//
// Code after a failed write or rename runs rarely, on the day on which it matters most. It is
// correct only if a test has run it, for each operation and not for the two that somebody thought
// of. So a test needs to make the k-th operation fail, for every k, until the work completes
// without a fault. Ways to do that:
//
// - An interface for the file system that tests replace, as leveldb has it (Env). It needs a
//   pointer in each function that touches a file, and reaches no program from the outside.
// - LD_PRELOAD of write(), rename() and the others. It counts the operations of all libraries too,
//   so that the k-th is another one on another machine, and does not know which of them are
//   outputs.
// - dm-flakey, dm-log-writes or a FUSE file system. They need root or a kernel with them, neither
//   of which a build machine has, and work by blocks, not by operations.
// - A hook in the few functions through which all files are written anyway. That is what next() is:
//   lib/io/checked.cpp and lib/io/file.cpp have nearly all of its calls.
//
// The hook also exists in release builds. So e2e tests arm it by a variable in the real command,
// with its threads, its ranks and its signals. The price is a test of two flags before an operation
// that takes microseconds at least, and a variable that nobody should set in production; a
// malformed value is an error, so that a test cannot pass because of a typing error.
//
// Kinds of faults, and what each alone can find: `fail` the paths of errors, `short` half a write,
// `kill` left-overs and the next start, `read` an error of the system that must not be mistaken for
// a damaged file, `slow` progress and timeouts on a slow disk, `cached` file systems without
// O_DIRECT.
//
// A killed process loses nothing that it has written, because the page cache survives. A power
// failure does. Cutting the power of a build machine is not a test either, so the operations are
// recorded with their bytes, and tests/ckpt/save_reorder_test.cpp replays them onto a model of a
// disk that keeps any subset of what was not flushed.
//
// Limits. The count is global, so with several threads the k-th operation may be another one in
// each run; a test over all k accepts that, because its condition holds for each of them. Sockets
// are not files: comm has tests of its own.
#include "io/fault.hpp"

#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "base/fd_path.hpp"

namespace lm::io::fault {
namespace {

struct Fault {
    Action action = Action::none;
    i64 at = 0;
    int error_number = EIO;
};

// Returns the errno with the given name; 0 for an unknown name.
int errno_from(std::string_view name) {
    if (name == "EIO") return EIO;
    if (name == "EACCES") return EACCES;
    if (name == "ESTALE") return ESTALE;
    return name == "ENOSPC" ? ENOSPC : 0;
}

Fault parse_fault(std::string_view text) {
    const size_t colon = text.find(':');
    const std::string_view name = text.substr(0, colon);
    std::string_view count = colon == text.npos ? "" : text.substr(colon + 1);
    Fault fault;
    if (const size_t second = count.find(':'); second != count.npos) {
        fault.error_number = errno_from(count.substr(second + 1));
        count = count.substr(0, second);
    }
    if (name == "fail") fault.action = Action::fail;
    if (name == "short") fault.action = Action::short_write;
    if (name == "kill") fault.action = Action::kill;
    if (name == "cached") fault.action = Action::cached_only;
    if (name == "read") fault.action = Action::fail_read;
    if (name == "slow") fault.action = Action::slow;
    const auto [end, error] = std::from_chars(count.data(), count.data() + count.size(), fault.at);
    const bool whole = error == std::errc() && end == count.data() + count.size();
    if (fault.action == Action::none || !whole || fault.at < 1 || fault.error_number == 0) {
        usage_error(
            "LM_IO_FAULT",
            "expected fail:K, short:K, kill:K, cached:K, read:K or slow:MS with K >= 1; an "
            "error may follow (EIO, EACCES, ESTALE or ENOSPC, as in fail:K:EACCES); got '{}'",
            text);
    }
    return fault;
}

struct State {
    std::mutex mutex;
    Fault fault;
    i64 n_operations = 0;
    bool recording = false;
    std::vector<FileOperation> record;
};

State& state() {
    static State the_state;
    return the_state;
}

// While no fault is armed and no operation is recorded, this flag is false and next() reads nothing
// else.
std::atomic<bool> active{false};
std::once_flag environment_read;

void read_environment() {
    const char* text = std::getenv("LM_IO_FAULT");
    if (!text) return;
    state().fault = parse_fault(text);
    active = true;
}

// Waits for the MS milliseconds of "slow:MS".
void delay() {
    i64 milliseconds = 0;
    {
        const std::lock_guard lock(state().mutex);
        if (state().fault.action == Action::slow) milliseconds = state().fault.at;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

Action count_one(std::string_view operation, std::string_view path, const Detail& detail) {
    State& s = state();
    const std::lock_guard lock(s.mutex);
    if (s.recording) {
        const auto* const bytes = reinterpret_cast<const char*>(detail.bytes.data());
        s.record.push_back({std::string(operation), without_fd_paths(std::string(path)),
                            without_fd_paths(std::string(detail.from)), detail.offset,
                            std::string(bytes, detail.bytes.size())});
    }
    if (s.fault.action == Action::fail_read || s.fault.action == Action::slow) return Action::none;
    return ++s.n_operations == s.fault.at ? s.fault.action : Action::none;
}

}  // namespace

Action next(std::string_view operation, std::string_view path) {
    return next(operation, path, {});
}

Action next(std::string_view operation, std::string_view path, const Detail& detail) {
    std::call_once(environment_read, read_environment);
    if (!active.load(std::memory_order_relaxed)) return Action::none;
    delay();
    const Action action = count_one(operation, path, detail);
    if (action == Action::kill) std::raise(SIGKILL);
    return action;
}

bool read_fails(std::string_view path) {
    std::call_once(environment_read, read_environment);
    if (!active.load(std::memory_order_relaxed)) return false;
    const std::string name = without_fd_paths(std::string(path));
    if (name.starts_with("/proc/") || name.starts_with("/sys/")) return false;
    delay();
    State& s = state();
    const std::lock_guard lock(s.mutex);
    return s.fault.action == Action::fail_read && ++s.n_operations == s.fault.at;
}

void delay_mapped_read() {
    std::call_once(environment_read, read_environment);
    if (active.load(std::memory_order_relaxed)) delay();
}

int error_number() {
    const std::lock_guard lock(state().mutex);
    return state().fault.error_number;
}

void arm(Action action, i64 at, int error_number) {
    std::call_once(environment_read, read_environment);
    const std::lock_guard lock(state().mutex);
    state().fault = {action, at, error_number};
    state().n_operations = 0;
    active = action != Action::none || state().recording;
}

void start_recording() {
    std::call_once(environment_read, read_environment);
    const std::lock_guard lock(state().mutex);
    state().recording = true;
    state().record.clear();
    active = true;
}

std::vector<FileOperation> stop_recording() {
    const std::lock_guard lock(state().mutex);
    state().recording = false;
    active = state().fault.action != Action::none;
    return std::exchange(state().record, {});
}

}  // namespace lm::io::fault
