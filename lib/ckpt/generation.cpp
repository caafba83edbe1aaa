// SPDX-License-Identifier: Apache-2.0
#include "ckpt/generation.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <span>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/launcher.hpp"
#include "base/log.hpp"
#include "base/machine.hpp"
#include "base/units.hpp"
#include "ckpt/manifest.hpp"
#include "ckpt/steps.hpp"
#include "io/atomic.hpp"
#include "io/checked.hpp"
#include "io/file.hpp"

namespace lm::ckpt {
namespace {

constexpr std::string_view file_prefix = "generation-";

i64 number_after(std::string_view name, std::string_view prefix) {
    if (!name.starts_with(prefix)) return 0;
    name.remove_prefix(prefix.size());
    i64 number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    return error == std::errc() && end == name.data() + name.size() && number > 0 ? number : 0;
}

std::string file_of(const std::string& directory, i64 number) {
    return fmt::format("{}/{}{}", directory, file_prefix, number);
}

i64 newest_in(const std::string& directory) {
    i64 newest = 0;
    for (const std::string& name : io::list_directory(directory)) {
        newest = std::max(newest, number_after(name, file_prefix));
    }
    return newest;
}

std::string describe_process() {
    const std::string job = slurm_job();
    return fmt::format("host {}, process {}{}{}, started {}", host_name(), ::getpid(),
                       job.empty() ? "" : ", job ", job, iso_time(static_cast<i64>(unix_time_s())));
}

// Creates the generation file durably: a number that a power cut forgets could be claimed twice.
bool create_new(const std::string& path) {
    const io::Fd fd(io::checked::create(path, O_WRONLY | O_EXCL));
    if (!fd.valid()) return false;
    const std::string text = describe_process() + "\n";
    io::checked::write_at(fd.get(), path, std::as_bytes(std::span(text)), 0);
    io::checked::fsync(fd.get(), path);
    io::checked::fsync_parent_of(path);
    return true;
}

// Returns the generation in the name of a save's temporary directory; 0 for other names.
i64 generation_of_temporary(std::string_view name) {
    const size_t tmp = name.find(temporary_mark);
    if (tmp == name.npos || step_from_name(name.substr(0, tmp)) < 0) return 0;
    return number_after(name.substr(tmp), temporary_mark);
}

// Renames before removing: the writer of `path` may still run and rename it to its final name. That
// rename then either publishes the complete directory or fails; it never publishes a half-removed
// one.
void remove_aside(const std::string& path, const std::string& aside) {
    try {
        io::checked::rename(path, aside);
    } catch (const Error&) {
        if (io::exists(path)) throw;
        return;
    }
    io::remove_tree(aside);
}

void remove_leftovers(const Generation& own) {
    for (const std::string& name : io::list_directory(own.directory)) {
        const std::string path = own.directory + "/" + name;
        const i64 generation = number_after(name, file_prefix);
        if (generation > 0 && generation < own.number) io::checked::unlink(path);
        const i64 writer = generation_of_temporary(name);
        if (writer > 0 && writer < own.number) {
            note("{}: removing the files of an interrupted save", path);
            // The new name carries our generation: if this removal is interrupted, too, the next
            // claim() removes it.
            const std::string step = path.substr(0, path.rfind(temporary_mark));
            remove_aside(path, fmt::format("{}{}{}", step, temporary_mark, own.number));
        }
    }
    for (const std::string& path : io::stale_temporaries(own.directory + "/latest")) {
        io::remove_tree(path);
    }
}

}  // namespace

Generation claim(const std::string& directory) {
    io::make_directories(directory);
    Generation own{directory, 0};
    // Exclusive creation alone is not enough: another run may have created N + 1 and removed file N
    // between the two lines below, so that creating N succeeds twice. A newer file after the
    // creation shows that; then the next number is tried.
    do {
        own.number = newest_in(directory) + 1;
    } while (!create_new(file_of(directory, own.number)) || newest_in(directory) != own.number);
    remove_leftovers(own);
    return own;
}

// Reads the directory, not a cached number: the newer run may be on another host of a shared file
// system.
void check_not_superseded(const Generation& generation) {
    const i64 newest = newest_in(generation.directory);
    if (newest <= generation.number) return;
    std::string who = io::read_file(file_of(generation.directory, newest));
    while (who.ends_with('\n')) who.pop_back();
    fail(Exit::self_stopped, generation.directory,
         "a newer run (generation {}: {}) uses this directory: this run (generation {}) stops "
         "without writing",
         newest, who, generation.number);
}

}  // namespace lm::ckpt
