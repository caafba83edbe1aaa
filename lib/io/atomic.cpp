// SPDX-License-Identifier: Apache-2.0
#include "io/atomic.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/machine.hpp"
#include "io/checked.hpp"
#include "io/file.hpp"

namespace lm::io {
namespace {

constexpr size_t buffer_bytes = size_t{4} << 20;
constexpr i64 abandoned_after_s = 86400;

void refuse_existing(const std::string& path, Overwrite overwrite, bool directory_wanted) {
    if (path.empty()) usage_error("output", "an empty file name");
    if (!directory_wanted && path.ends_with('/')) usage_error(path, "is not the name of a file");
    if (!exists(path)) return;
    if (overwrite == Overwrite::no) usage_error(path, "exists already: use --force to replace it");
    struct stat status {};
    const bool dangling = ::stat(path.c_str(), &status) != 0;
    if (directory_wanted && !S_ISDIR(status.st_mode)) {
        usage_error(path, "exists and is not a directory: choose another name");
    }
    if (!directory_wanted && !dangling && !S_ISREG(status.st_mode)) {
        usage_error(path, "exists and is not a regular file: choose another name");
    }
}

[[noreturn]] void appeared_meanwhile(const std::string& path) {
    run_error(path, "came to exist while it was being written: it was left as it is");
}

// Runs `cleanup` where throwing is not possible: a leftover is worth a warning, not a crash.
template <typename Cleanup>
void without_throwing(Cleanup cleanup) noexcept {
    try {
        cleanup();
    } catch (const std::exception& error) {
        warn("{}", error.what());
    }
}

void sync_tree(const std::string& path) {
    for (const std::string& name : list_directory(path)) {
        const std::string entry = path + "/" + name;
        struct stat status {};
        if (::lstat(entry.c_str(), &status) != 0) system_error(entry, "look at it", errno);
        if (S_ISDIR(status.st_mode)) sync_tree(entry);
        if (S_ISREG(status.st_mode)) checked::fsync_path(entry);
    }
    checked::fsync_path(path);
}

bool all_digits(std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

bool process_is_dead(std::string_view pid_text) {
    pid_t pid = 0;
    std::from_chars(pid_text.data(), pid_text.data() + pid_text.size(), pid);
    return pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH;
}

bool untouched_for_long(const std::string& path) {
    struct stat status {};
    return ::lstat(path.c_str(), &status) == 0 &&
           std::time(nullptr) - status.st_mtime > abandoned_after_s;
}

// `tail` is what follows "PATH.tmp." in a name: HOST.PID or HOST.PID.N.
bool is_stale(const std::string& path, std::string_view tail) {
    const std::string own = host_name() + ".";
    if (tail.starts_with(own)) {
        tail.remove_prefix(own.size());
        const size_t dot = tail.find('.');
        const std::string_view pid = tail.substr(0, dot);
        const bool numbered = dot == tail.npos || all_digits(tail.substr(dot + 1));
        if (all_digits(pid)) return numbered && process_is_dead(pid);
    }
    const size_t dot = tail.rfind('.');
    return dot != tail.npos && all_digits(tail.substr(dot + 1)) && untouched_for_long(path);
}

}  // namespace

struct AtomicFile::State {
    std::string path;
    std::string temporary;
    Overwrite overwrite = Overwrite::no;
    Fd fd;
    std::unique_ptr<std::byte[]> buffer;
    size_t n_buffered = 0;
    i64 n_written = 0;  // bytes of the appends that lie in the file
    bool committed = false;

    State(std::string final_path, Overwrite mode) : path(std::move(final_path)), overwrite(mode) {
        refuse_existing(path, overwrite, false);
        const std::string name = temporary_name(path);
        temporary = name;
        for (int n = 2; !fd.valid(); ++n) {
            fd = Fd(checked::create(temporary, O_RDWR | O_EXCL));
            if (!fd.valid()) temporary = fmt::format("{}.{}", name, n);
        }
    }

    ~State() {
        if (!committed) without_throwing([&] { checked::unlink(temporary); });
    }

    State(const State&) = delete;
    State& operator=(const State&) = delete;

    void append(std::span<const std::byte> bytes) {
        checked::write_at(fd.get(), temporary, bytes, n_written);
        n_written += static_cast<i64>(bytes.size());
    }

    void flush() {
        LM_CHECK(fd.valid(), "a write to an output that was closed");
        if (n_buffered == 0) return;
        append({buffer.get(), n_buffered});
        n_buffered = 0;
    }

    void write(std::span<const std::byte> bytes) {
        LM_CHECK(fd.valid(), "a write to an output that was closed");
        if (n_buffered + bytes.size() > buffer_bytes) flush();
        if (bytes.size() >= buffer_bytes) return append(bytes);
        if (bytes.empty()) return;
        if (!buffer) buffer = std::make_unique_for_overwrite<std::byte[]>(buffer_bytes);
        std::memcpy(buffer.get() + n_buffered, bytes.data(), bytes.size());
        n_buffered += bytes.size();
    }

    void sync() {
        flush();
        buffer.reset();
        checked::fsync(fd.get(), temporary);
        // Network file systems may report a failed write as late as here.
        if (::close(fd.release()) != 0) system_error(temporary, "close", errno);
    }

    void commit() {
        LM_CHECK(!committed, "an output committed twice");
        if (fd.valid()) sync();
        if (overwrite == Overwrite::yes) {
            checked::rename(temporary, path);
        } else if (!checked::rename_new(temporary, path)) {
            appeared_meanwhile(path);
        }
        committed = true;
        checked::fsync_parent_of(path);
    }
};

AtomicFile::AtomicFile(std::string path, Overwrite overwrite)
    : state_(std::make_unique<State>(std::move(path), overwrite)) {}
AtomicFile::~AtomicFile() = default;
AtomicFile::AtomicFile(AtomicFile&&) noexcept = default;
AtomicFile& AtomicFile::operator=(AtomicFile&&) noexcept = default;

const std::string& AtomicFile::path() const {
    return state_->path;
}

void AtomicFile::write(std::span<const std::byte> bytes) {
    state_->write(bytes);
}

void AtomicFile::write(std::string_view text) {
    state_->write(std::as_bytes(std::span(text)));
}

void AtomicFile::write_at(std::span<const std::byte> bytes, i64 offset) {
    LM_CHECK(offset >= 0, "a write before the start of a file");
    state_->flush();
    checked::write_at(state_->fd.get(), state_->temporary, bytes, offset);
}

void AtomicFile::read_back(std::span<std::byte> bytes, i64 offset) {
    state_->flush();
    read_exact(state_->fd, state_->temporary, bytes, offset);
}

i64 AtomicFile::size() const {
    return state_->n_written + static_cast<i64>(state_->n_buffered);
}

void AtomicFile::flush() {
    state_->flush();
}

void AtomicFile::sync() {
    if (state_->fd.valid()) state_->sync();
}

void AtomicFile::commit() {
    state_->commit();
}

struct AtomicDirectory::State {
    std::string path;
    std::string temporary;
    Overwrite overwrite = Overwrite::no;
    bool committed = false;

    State(std::string final_path, std::string_view suffix, Overwrite mode)
        : path(std::move(final_path)), overwrite(mode) {
        while (path.size() > 1 && path.ends_with('/')) path.pop_back();
        temporary = fmt::format("{}.tmp.{}", path, suffix);
        refuse_existing(path, overwrite, true);
        remove_tree(temporary);
        checked::make_directory(temporary);
    }

    ~State() {
        if (!committed) without_throwing([&] { remove_tree(temporary); });
    }

    State(const State&) = delete;
    State& operator=(const State&) = delete;

    void commit() {
        LM_CHECK(!committed, "an output directory committed twice");
        sync_tree(temporary);
        const bool replace = overwrite == Overwrite::yes && exists(path);
        if (replace) {
            checked::exchange_directories(temporary, path);
        } else if (!checked::rename_new(temporary, path)) {
            appeared_meanwhile(path);
        }
        committed = true;
        checked::fsync_parent_of(path);
        if (replace) remove_tree(temporary);  // by now the old one
    }
};

AtomicDirectory::AtomicDirectory(std::string final_path, std::string_view suffix,
                                 Overwrite overwrite)
    : state_(std::make_unique<State>(std::move(final_path), suffix, overwrite)) {}
AtomicDirectory::~AtomicDirectory() = default;
AtomicDirectory::AtomicDirectory(AtomicDirectory&&) noexcept = default;
AtomicDirectory& AtomicDirectory::operator=(AtomicDirectory&&) noexcept = default;

const std::string& AtomicDirectory::path() const {
    return state_->temporary;
}

const std::string& AtomicDirectory::final_path() const {
    return state_->path;
}

void AtomicDirectory::commit() {
    state_->commit();
}

void write_file(const std::string& path, std::string_view content, Overwrite overwrite) {
    AtomicFile file(path, overwrite);
    file.write(content);
    file.commit();
}

std::string temporary_name(const std::string& path) {
    return fmt::format("{}.tmp.{}.{}", path, host_name(), ::getpid());
}

std::vector<std::string> stale_temporaries(const std::string& path) {
    const std::string parent = parent_of(path);
    if (!is_directory(parent)) return {};
    const size_t slash = path.rfind('/');
    const std::string directory = slash == path.npos ? "" : path.substr(0, slash + 1);
    const std::string prefix = path.substr(directory.size()) + ".tmp.";
    std::vector<std::string> stale;
    for (const std::string& name : list_directory(parent)) {
        const std::string_view view = name;
        if (!view.starts_with(prefix)) continue;
        std::string candidate = directory + name;
        if (is_stale(candidate, view.substr(prefix.size()))) stale.push_back(std::move(candidate));
    }
    return stale;
}

}  // namespace lm::io
