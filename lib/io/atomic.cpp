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
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/machine.hpp"
#include "io/checked.hpp"
#include "io/directory.hpp"
#include "io/file.hpp"
#include "io/path.hpp"

namespace lm::io {
namespace {

// Appended bytes are buffered up to this size.
constexpr size_t write_buffer_bytes = size_t{4} << 20;
constexpr i64 abandoned_after_s = 86400;

// Checks an output before any work is done. exists() uses lstat(), so a dangling symbolic link
// counts as existing, and is replaced like a file. Another process may create the file later, so
// the rename of commit() repeats the check atomically.
void refuse_existing(const std::string& path, Overwrite overwrite, bool directory_wanted) {
    if (path.empty()) usage_error("output", "the file name is empty: give a name");
    if (!directory_wanted && path.ends_with('/')) {
        usage_error(path, "names a directory, expected a file: remove the '/' at the end");
    }
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

[[noreturn]] void created_meanwhile(const std::string& path) {
    run_error(path,
              "was created by another program during this write and is not replaced: use "
              "--force to replace it");
}

// Runs `cleanup` in a destructor. Warns when a temporary cannot be removed.
template <typename Cleanup>
void without_throwing(Cleanup cleanup) noexcept {
    try {
        cleanup();
    } catch (const std::exception& error) {
        warn("{}", error.what());
    }
}

// Makes all regular files of a tree durable, and each directory after its entries.
void sync_tree(const std::string& path) {
    for (const std::string& name : list_directory(path)) {
        const std::string entry = path + "/" + name;
        struct stat status {};
        if (::lstat(entry.c_str(), &status) != 0) system_error(entry, "get the status", errno);
        if (S_ISDIR(status.st_mode)) sync_tree(entry);
        if (S_ISREG(status.st_mode)) checked::fsync_path(entry);
    }
    checked::fsync_path(path);
}

// Only ESRCH proves that the process has ended; EPERM means that the process exists.
bool process_has_ended(std::string_view pid_text) {
    pid_t pid = 0;
    std::from_chars(pid_text.data(), pid_text.data() + pid_text.size(), pid);
    return pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH;
}

bool untouched_for_long(const std::string& path) {
    struct stat status {};
    return ::lstat(path.c_str(), &status) == 0 &&
           std::time(nullptr) - status.st_mtime > abandoned_after_s;
}

// `tail` follows "PATH.tmp." in the name: HOST.PID or HOST.PID.N. A process can be checked only on
// its own host. A temporary of another host is stale when it was not modified for
// abandoned_after_s.
bool is_stale(const std::string& path, std::string_view tail) {
    const std::string own = host_name() + ".";
    if (tail.starts_with(own)) {
        tail.remove_prefix(own.size());
        const size_t dot = tail.find('.');
        const std::string_view pid = tail.substr(0, dot);
        const bool numbered = dot == tail.npos || all_digits(tail.substr(dot + 1));
        if (all_digits(pid)) return numbered && process_has_ended(pid);
    }
    const size_t dot = tail.rfind('.');
    return dot != tail.npos && all_digits(tail.substr(dot + 1)) && untouched_for_long(path);
}

}  // namespace

struct AtomicFile::State {
    std::string path;
    std::string temporary;  // empty before create()
    Overwrite overwrite = Overwrite::no;
    Fd fd;  // invalid after sync()
    std::unique_ptr<std::byte[]> buffer;
    size_t n_buffered = 0;
    i64 n_written = 0;  // appended bytes that have left the buffer
    bool committed = false;

    State(std::string final_path, Overwrite mode) : path(std::move(final_path)), overwrite(mode) {}
    // Without a commit() the final name is unchanged, so removing the temporary undoes everything.
    ~State() {
        if (!committed && !temporary.empty()) without_throwing([&] { checked::unlink(temporary); });
    }
    State(const State&) = delete;
    State& operator=(const State&) = delete;

    // Writes at explicit offsets only. So n_written stays the end of the appended bytes when
    // write_at() writes elsewhere, and threads do not share a file offset.
    void append(std::span<const std::byte> bytes) {
        checked::write_at(fd.get(), temporary, bytes, n_written);
        n_written += static_cast<i64>(bytes.size());
    }
};

// O_EXCL makes the name unique, so two writers of one path, even in one process, get different
// temporaries. The temporary is in the directory of the final name, since rename() works only
// within a file system.
AtomicFile AtomicFile::create(const std::string& path, Overwrite overwrite) {
    auto state = std::make_unique<State>(path, overwrite);
    refuse_existing(path, overwrite, false);
    const std::string name = temporary_name(path);
    std::string candidate = name;
    for (int n = 2; !state->fd.valid(); ++n) {
        state->fd = Fd(checked::create(candidate, O_RDWR | O_EXCL));
        if (state->fd.valid()) state->temporary = candidate;
        candidate = fmt::format("{}.{}", name, n);
    }
    return AtomicFile(std::move(state));
}

AtomicFile::AtomicFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
AtomicFile::~AtomicFile() = default;
AtomicFile::AtomicFile(AtomicFile&&) noexcept = default;
AtomicFile& AtomicFile::operator=(AtomicFile&&) noexcept = default;

const std::string& AtomicFile::path() const {
    return state_->path;
}

const std::string& AtomicFile::temporary() const {
    return state_->temporary;
}

void AtomicFile::write(std::span<const std::byte> bytes) {
    State& file = *state_;
    LM_CHECK(file.fd.valid(), "{}: expected no write after sync()", file.path);
    if (file.n_buffered + bytes.size() > write_buffer_bytes) flush();
    if (bytes.size() >= write_buffer_bytes) return file.append(bytes);
    if (bytes.empty()) return;
    if (!file.buffer) file.buffer = std::make_unique_for_overwrite<std::byte[]>(write_buffer_bytes);
    std::memcpy(file.buffer.get() + file.n_buffered, bytes.data(), bytes.size());
    file.n_buffered += bytes.size();
}

void AtomicFile::write(std::string_view text) {
    write(std::as_bytes(std::span(text)));
}

void AtomicFile::write_at(std::span<const std::byte> bytes, i64 offset) {
    LM_CHECK(offset >= 0, "{}: expected an offset >= 0, got {}", path(), offset);
    flush();
    checked::write_at(state_->fd.get(), state_->temporary, bytes, offset);
}

void AtomicFile::read_back(std::span<std::byte> bytes, i64 offset) {
    flush();
    read_exact(state_->fd, state_->temporary, bytes, offset);
}

i64 AtomicFile::size() const {
    return state_->n_written + static_cast<i64>(state_->n_buffered);
}

void AtomicFile::flush() {
    LM_CHECK(state_->fd.valid(), "{}: expected no write after sync()", path());
    if (state_->n_buffered == 0) return;
    state_->append({state_->buffer.get(), state_->n_buffered});
    state_->n_buffered = 0;
}

// After fsync() the content is durable; the directory entry is not. A failed fsync() is final,
// because the kernel may have dropped the dirty pages, and a second call could report success
// (fsync(2)). The file stays uncommitted, so that the destructor removes it.
void AtomicFile::sync() {
    State& file = *state_;
    if (!file.fd.valid()) return;
    flush();
    file.buffer.reset();
    checked::fsync(file.fd.get(), file.temporary);
    // NFS may report a failed write only here (close(2), NOTES).
    if (::close(file.fd.release()) != 0) system_error(file.temporary, "close", errno);
}

void AtomicFile::commit() {
    State& file = *state_;
    LM_CHECK(!file.committed, "{}: expected one commit(), got a second one", file.path);
    sync();
    // The content is durable now. A crash before the rename leaves the temporary, which
    // stale_temporaries() finds. rename() replaces atomically, so readers see either the old or
    // the new file. rename_new() fails if the name exists.
    if (file.overwrite == Overwrite::yes) {
        checked::rename(file.temporary, file.path);
    } else if (!checked::rename_new(file.temporary, file.path)) {
        created_meanwhile(file.path);
    }
    file.committed = true;  // the temporary name does not exist any more, whatever fsync() reports
    // Without this call a power cut could lose the new directory entry and, with
    // Overwrite::yes, restore the old file.
    checked::fsync_parent_of(file.path);
}

struct AtomicDirectory::State {
    std::string path;
    std::string temporary;
    Overwrite overwrite = Overwrite::no;
    std::optional<Directory> directory;  // the temporary directory
    bool committed = false;

    State(std::string final_path, Overwrite mode)
        : path(without_trailing_slashes(std::move(final_path))), overwrite(mode) {}
    ~State() {
        if (directory && !committed) without_throwing([&] { remove_tree(temporary); });
    }
    State(const State&) = delete;
    State& operator=(const State&) = delete;
};

// Creates the temporary directory PATH.tmp.SUFFIX. If an interrupted run left a directory of that
// name, removes it first.
AtomicDirectory AtomicDirectory::create(std::string final_path, std::string_view suffix,
                                        Overwrite overwrite) {
    auto state = std::make_unique<State>(std::move(final_path), overwrite);
    state->temporary = fmt::format("{}.tmp.{}", state->path, suffix);
    refuse_existing(state->path, overwrite, true);
    remove_tree(state->temporary);
    state->directory = Directory::create(state->temporary);
    return AtomicDirectory(std::move(state));
}

AtomicDirectory::AtomicDirectory(std::unique_ptr<State> state) : state_(std::move(state)) {}
AtomicDirectory::~AtomicDirectory() = default;
AtomicDirectory::AtomicDirectory(AtomicDirectory&&) noexcept = default;
AtomicDirectory& AtomicDirectory::operator=(AtomicDirectory&&) noexcept = default;

const std::string& AtomicDirectory::path() const {
    return state_->directory->path();
}

const std::string& AtomicDirectory::final_path() const {
    return state_->path;
}

void AtomicDirectory::commit() {
    const std::string& path = state_->path;
    const std::string& temporary = state_->temporary;
    LM_CHECK(!state_->committed, "{}: expected one commit(), got a second one", path);
    // sync_tree() syncs files before their directories, because an entry is durable only with its
    // directory. A crash before the rename leaves the temporary directory, which create() with the
    // same suffix removes.
    sync_tree(state_->directory->path());
    state_->directory->check_name();
    const bool replace = state_->overwrite == Overwrite::yes && exists(path);
    // rename() cannot replace a directory that is not empty, so the two names are exchanged. At
    // every moment the final name has a complete directory. A crash after the exchange leaves the
    // old content under the temporary name.
    if (replace) {
        checked::exchange_directories(temporary, path);
    } else if (!checked::rename_new(temporary, path)) {
        created_meanwhile(path);
    }
    state_->committed = true;
    checked::fsync_parent_of(path);
    if (replace) remove_tree(temporary);  // the old content, after the exchange
}

void write_file(const std::string& path, std::string_view content, Overwrite overwrite) {
    auto file = AtomicFile::create(path, overwrite);
    file.write(content);
    file.commit();
}

std::string temporary_name(const std::string& path) {
    return fmt::format("{}.tmp.{}.{}", path, host_name(), ::getpid());
}

bool all_digits(std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

bool is_temporary_name(std::string_view name) {
    const size_t mark = name.find(".tmp.");
    if (mark == 0 || mark == name.npos) return false;
    std::vector<std::string_view> parts;  // words of HOST.PID; a host name may contain dots
    for (std::string_view tail = name.substr(mark + 5);;) {
        const size_t dot = tail.find('.');
        parts.push_back(tail.substr(0, dot));
        if (dot == tail.npos) break;
        tail.remove_prefix(dot + 1);
    }
    if (parts.size() > 2 && parts.back() == "old") parts.pop_back();
    const std::string_view number = parts.back();
    return parts.size() > 1 && !parts.front().empty() && all_digits(number) && number[0] != '0';
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
