// SPDX-License-Identifier: Apache-2.0
#include "io/file.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <new>
#include <utility>

#include "base/error.hpp"
#include "base/fd_path.hpp"
#include "io/checked.hpp"
#include "io/fault.hpp"
#include "io/mappings.hpp"
#include "io/path.hpp"
#include "io/pipe_wait.hpp"

namespace lm::io {
namespace {

struct stat status_of(const Fd& fd, const std::string& path) {
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0) system_error(path, "get the status", errno);
    return status;
}

// Reads until `bytes` is full or the file ends; returns the number of bytes. A negative `offset`
// means the current position. `waits`: the file may be a pipe without data.
size_t read_some(const Fd& fd, const std::string& path, std::span<std::byte> bytes, i64 offset,
                 bool waits = false) {
    if (fault::read_fails(path)) system_error(path, "read", fault::error_number());
    size_t done = 0;
    while (done < bytes.size()) {
        const std::span<std::byte> rest = bytes.subspan(done);
        if (waits) await_data(fd, path);
        const ssize_t n = offset < 0 ? ::read(fd.get(), rest.data(), rest.size())
                                     : ::pread(fd.get(), rest.data(), rest.size(),
                                               offset + static_cast<i64>(done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) system_error(path, "read", errno);
        if (n == 0) break;
        done += static_cast<size_t>(n);
    }
    return done;
}

}  // namespace

Fd::~Fd() {
    if (fd_ >= 0) ::close(fd_);
}

Fd::Fd(Fd&& other) noexcept : fd_(other.release()) {}

Fd& Fd::operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
}

int Fd::release() {
    return std::exchange(fd_, -1);
}

namespace {

// Throws Error(failure) with the reason in errno. A missing file may be the target of a link: in
// the cache of Hugging Face the files of a model are links to ../../blobs.
[[noreturn]] void read_error(const std::string& path, std::string_view action) {
    const int reason = errno;
    std::array<char, PATH_MAX> target{};
    const ssize_t n = ::readlink(path.c_str(), target.data(), target.size());
    if (reason == ENOENT && n > 0) {
        run_error(path,
                  "is a link to {}, which does not exist: copy the target, too, or download the "
                  "file again",
                  std::string_view(target.data(), static_cast<size_t>(n)));
    }
    system_error(path, action, reason);
}

}  // namespace

Fd open_read(const std::string& path, Links links) {
    if (fault::read_fails(path)) system_error(path, "open", fault::error_number());
    Fd fd(checked::open_regular(path, O_RDONLY | (links == Links::refuse ? O_NOFOLLOW : 0)));
    if (!fd.valid()) read_error(path, "open");
    return fd;
}

Fd open_input(const std::string& path) {
    Fd fd = open_before_writer(path);
    await_first_writer(fd, path);
    return fd;
}

namespace {

std::string read_all(const Fd& fd, const std::string& path, i64 limit) {
    // A read() of more bytes than the file should have also detects the end of the file. simdjson
    // needs the spare bytes as padding to parse the string in place. Files under /proc state size
    // 0. Their first read must be large, because files under /proc/sys return text only to the
    // first read, truncated to its length.
    constexpr size_t more = 128;
    const struct stat status = status_of(fd, path);
    const bool waits = !S_ISREG(status.st_mode);
    const i64 size_now = status.st_size;
    const auto check = [&](i64 size) {
        if (size > limit)
            run_error(path, "is too large: expected at most {} bytes, got {}", limit, size);
    };
    check(size_now);
    size_t chunk = size_now == 0 ? 65536 : static_cast<size_t>(size_now) + more;
    std::string content;
    while (true) {
        const size_t size = content.size();
        content.resize(size + chunk);
        const std::span<char> fresh = std::span(content).subspan(size);
        const size_t n = read_some(fd, path, std::as_writable_bytes(fresh), -1, waits);
        content.resize(size + n);
        check(static_cast<i64>(content.size()));
        if (n < chunk) return content;
        chunk = std::max<size_t>(chunk, 65536);
    }
}

std::string read_all_in_memory(const Fd& fd, const std::string& path, i64 limit) {
    try {
        return read_all(fd, path, limit);
    } catch (const std::bad_alloc&) {
        run_error(path, "out of memory: its {} bytes are read as a whole",
                  i64{status_of(fd, path).st_size});
    }
}

}  // namespace

std::string read_file(const std::string& path, i64 limit, Links links) {
    return read_all_in_memory(open_read(path, links), path, limit);
}

std::string read_input(const std::string& path, i64 limit) {
    return read_all_in_memory(open_input(path), path, limit);
}

void read_exact(const Fd& fd, const std::string& path, std::span<std::byte> bytes, i64 offset) {
    LM_CHECK(offset >= 0, "{}: expected an offset >= 0, got {}", path, offset);
    const size_t n = read_some(fd, path, bytes, offset);
    if (n < bytes.size()) {
        run_error(path, "truncated: ends at byte {}, expected {} bytes from byte {}",
                  offset + static_cast<i64>(n), bytes.size(), offset);
    }
}

bool exists(const std::string& path) {
    struct stat status {};
    return ::lstat(path.c_str(), &status) == 0;
}

bool is_directory(const std::string& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

i64 file_size(const std::string& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) read_error(path, "get the status");
    return status.st_size;
}

std::vector<std::string> list_directory(const std::string& path) {
    Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd.valid()) system_error(path, "list the directory", errno);
    return names_in(std::move(fd), path);
}

std::vector<std::string> names_in(Fd fd, const std::string& path) {
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::fdopendir(fd.get()), ::closedir);
    if (!directory) system_error(path, "list the directory", errno);
    fd.release();  // closedir() closes it
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = ::readdir(directory.get())) {
        const std::string_view name = entry->d_name;
        if (name != "." && name != "..") names.emplace_back(name);
        errno = 0;
    }
    if (errno != 0) system_error(path, "list the directory", errno);
    std::ranges::sort(names);
    return names;
}

void make_directories(const std::string& path) {
    if (is_directory(path)) return;
    const std::string parent = parent_of(path);
    if (parent != path) make_directories(parent);
    checked::make_directory(path);
    checked::fsync_path(parent);
}

MappedFile MappedFile::open(const std::string& path) {
    const Fd fd = open_read(path);
    const struct stat status = status_of(fd, path);
    MappedFile file;
    file.path_ = path;
    if (status.st_size == 0) return file;
    void* data =
        ::mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ, MAP_SHARED, fd.get(), 0);
    if (data == MAP_FAILED) system_error(path, "map", errno);
    file.data_ = static_cast<const std::byte*>(data);
    file.size_ = status.st_size;
    add_mapping(data, file.size_, without_fd_paths(path));
    return file;
}

MappedFile::~MappedFile() {
    if (!data_) return;
    remove_mapping(data_);
    ::munmap(const_cast<std::byte*>(data_), static_cast<size_t>(size_));
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
}

// Ignores errors, since madvise() is only advice.
void MappedFile::advise_will_need(i64 offset, i64 length) const {
    static const i64 page = ::sysconf(_SC_PAGESIZE);
    const i64 begin = std::clamp<i64>(offset, 0, size_) / page * page;
    const i64 end = std::clamp<i64>(offset + length, 0, size_);
    if (begin >= end) return;
    ::madvise(const_cast<std::byte*>(data_ + begin), static_cast<size_t>(end - begin),
              MADV_WILLNEED);
}

namespace {

void remove_tree_in(int in, const char* name, const std::string& path) {
    struct stat status {};
    if (::fstatat(in, name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno == ENOENT) return;
        system_error(path, "get the status", errno);
    }
    if (!S_ISDIR(status.st_mode)) return checked::unlink_in(in, name, path);
    Fd fd(::openat(in, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!fd.valid() && errno == ENOENT) return;
    if (!fd.valid()) system_error(path, "list the directory", errno);
    for (const std::string& entry : names_in(Fd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0)), path))
        remove_tree_in(fd.get(), entry.c_str(), path + "/" + entry);
    checked::remove_directory_in(in, name, path);
}

}  // namespace

void remove_tree(const std::string& path) {
    remove_tree_in(AT_FDCWD, path.c_str(), path);
}

double modified_s(const std::string& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) system_error(path, "read the time", errno);
    constexpr double nano = 1e-9;
    return static_cast<double>(status.st_mtim.tv_sec) +
           nano * static_cast<double>(status.st_mtim.tv_nsec);
}

}  // namespace lm::io
