// SPDX-License-Identifier: Apache-2.0
#include "ckpt/history/leftovers.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "ckpt/history/abandon.hpp"
#include "ckpt/history/generation.hpp"
#include "ckpt/history/steps.hpp"
#include "io/atomic.hpp"
#include "io/file.hpp"

namespace lm::ckpt {
namespace {

struct Tree {
    i64 bytes = 0;
    double newest_s = 0;  // Unix time of the newest change
};

// Adds the files below `path` to `tree`. Does not follow links. A file may disappear during the
// call, because the program that owns it may still run; such a file is skipped.
void measure(const std::string& path, Tree& tree) {
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0) return;
    tree.newest_s = std::max(tree.newest_s, static_cast<double>(status.st_mtime));
    if (!S_ISDIR(status.st_mode)) {
        tree.bytes += status.st_size;
        return;
    }
    std::vector<std::string> names;
    try {
        names = io::list_directory(path);
    } catch (const Error&) {
        if (io::exists(path)) throw;
    }
    for (const std::string& name : names) measure(path + "/" + name, tree);
}

// Returns whether this toolkit writes a file of this name in a directory of steps through a
// temporary. Users have files such as thesis.tmp.draft.2, so the names around ".tmp." do not
// suffice.
bool is_written(std::string_view name) {
    constexpr std::array<std::string_view, 7> files{latest_file,
                                                    fence_file,
                                                    "durable-directory",
                                                    "pending-evaluation.json",
                                                    "refused-iterations.json",
                                                    "starts-without-step.json",
                                                    "sync"};
    return step_from_name(name) >= 0 || std::ranges::find(files, name) != files.end();
}

// Returns whether `name` is that of a token of ranks that meet (comm/join/join.cpp).
bool is_meeting(std::string_view name) {
    constexpr std::string_view prefix = "rendezvous.tmp.";
    constexpr size_t n_digits = 16;
    return name.starts_with(prefix) && name.size() == prefix.size() + n_digits &&
           name.find_first_not_of("0123456789abcdef", prefix.size()) == name.npos;
}

// Returns whether a running copy holds the lock in the temporary directory `path` (copy.hpp).
bool is_locked(const std::string& path) {
    const io::Fd fd(
        ::open((path + "/lock").c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
    return fd.valid() && ::flock(fd.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

}  // namespace

bool is_leftover(std::string_view name) {
    const size_t at = name.find(".tmp.");
    if (at == name.npos) return false;
    const std::string_view tail = name.substr(at);
    const bool is_step = step_from_name(name.substr(0, at)) >= 0;
    if (is_step && (tail == copy_mark || tail == incoming_mark)) return true;
    if (is_step && tail.starts_with(temporary_mark) &&
        io::all_digits(tail.substr(temporary_mark.size())))
        return true;
    if (tail == removal_mark) return is_step || abandoned_generation(name.substr(0, at)) > 0;
    return is_meeting(name) || (is_written(name.substr(0, at)) && io::is_temporary_name(name));
}

std::vector<Leftover> leftovers_in(const std::string& directory) {
    std::vector<Leftover> found;
    const double now = unix_time_s();
    for (const std::string& name : io::list_directory(directory)) {
        if (!is_leftover(name)) continue;
        const std::string path = directory + "/" + name;
        Tree tree;
        measure(path, tree);
        found.push_back({.name = name,
                         .bytes = tree.bytes,
                         .age_s = std::max(0.0, now - tree.newest_s),
                         .in_use = is_locked(path)});
    }
    return found;
}

i64 tree_bytes(const std::string& path) {
    Tree tree;
    measure(path, tree);
    return tree.bytes;
}

}  // namespace lm::ckpt
