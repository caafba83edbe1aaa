// SPDX-License-Identifier: Apache-2.0
#include "io/checked.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <system_error>
#include <vector>

#include "base/error.hpp"
#include "base/fd_path.hpp"
#include "io/atomic.hpp"
#include "io/fault.hpp"
#include "io/file.hpp"
#include "io/path.hpp"

namespace lm::io {
namespace {

// Returns the remedy for an errno, to append to the message; an empty text when the user cannot
// remove the cause.
std::string_view remedy(int error_number) {
    switch (error_number) {
        case ENOSPC:
            return ": free space, or choose another directory";
        case EDQUOT:
            return ": free space within the quota or choose another directory";
        case EROFS:
            return ": choose another directory";
        case EACCES:
        case EPERM:
            return ": check the owner and permissions";
        case EMFILE:
            return ": raise the limit of open files (ulimit -n)";
        case EFBIG:
            return ": raise the limit of file sizes (ulimit -f)";
        case ENOMEM:
            return ": free memory or raise the limit (ulimit -v)";
        case ESTALE:
            return ": the network file system lost the file: check its server";
        case EIO:
            return ": the disk or its file system is faulty (see dmesg): use another copy or "
                   "directory";
        default:
            return "";
    }
}

// Returns whether the fault layer makes the operation fail. If so, sets errno.
bool faulted(std::string_view operation, std::string_view path, const fault::Detail& detail = {}) {
    const fault::Action action = fault::next(operation, path, detail);
    if (action == fault::Action::none || action == fault::Action::cached_only) return false;
    errno = action == fault::Action::fail ? fault::error_number() : EIO;
    return true;
}

// Repeats `call` while a signal interrupts it (EINTR).
template <typename Call>
auto retried(Call call) {
    while (true) {
        const auto result = call();
        if (result >= 0 || errno != EINTR) return result;
    }
}

// Uses syscall(), because only glibc 2.28 and later have the function renameat2().
int renameat2(const std::string& from, const std::string& to, unsigned flags) {
    return static_cast<int>(
        ::syscall(SYS_renameat2, AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags));
}

// Reports an ENOENT of `path`: names the parent directory if it does not exist. In some file
// systems, such as /proc, ENOENT has another cause.
[[noreturn]] void no_parent(const std::string& path, std::string_view action) {
    const std::string parent = parent_of(path);
    if (io::exists(parent))
        run_error(final_name(path), "cannot {}: {}: choose another directory", action,
                  std::generic_category().message(ENOENT));
    run_error(final_name(path), "cannot {}: directory {} does not exist: create it first", action,
              parent);
}

// Returns whether a rename or link failed because the operation is not possible for these files.
// EINVAL: the file system does not support the flags of renameat2(), see rename(2). ENOSYS: the
// kernel is too old. EOPNOTSUPP, EPERM: the file system has no hard links, see link(2). EMLINK: the
// file has too many links.
bool unsupported(int error_number) {
    return error_number == EINVAL || error_number == ENOSYS || error_number == EOPNOTSUPP ||
           error_number == EPERM || error_number == EMLINK;
}

// Returns whether `from` and `to` are two names of one file. This happens when the process was
// killed between link() and the removal of the old name, or when the reply of an NFS server to
// link() was lost.
bool is_linked(const std::string& from, const std::string& to) {
    struct stat a {
    }, b{};
    return ::lstat(from.c_str(), &a) == 0 && ::lstat(to.c_str(), &b) == 0 && S_ISREG(a.st_mode) &&
           a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_nlink > 1;
}

}  // namespace

void system_error(std::string_view path, std::string_view action, int error_number) {
    run_error(path, "cannot {}: {}{}", action, std::generic_category().message(error_number),
              remedy(error_number));
}

std::string final_name(std::string_view temporary) {
    constexpr std::string_view mark = ".tmp.";
    const std::string named = without_fd_paths(std::string(temporary));
    std::string_view path = named;
    std::string name;
    while (!path.empty()) {
        const std::string_view part = path.substr(0, std::min(path.find('/'), path.size()));
        path.remove_prefix(part.size());
        const size_t at = part.find(mark);
        name += at == 0 ? part : part.substr(0, at);
        if (path.empty()) break;
        name += '/';
        path.remove_prefix(1);
    }
    return name;
}

namespace checked {
namespace {

// Reports a failed change of `path`. The message has the name that the user gave, not the temporary
// name, because the unfinished output is removed later.
[[noreturn]] void output_error(std::string_view path, std::string_view action, int error_number) {
    system_error(final_name(path), action, error_number);
}

[[noreturn]] void rename_error(const std::string& from, const std::string& to,
                               std::string_view verb, int error_number) {
    const std::string name = final_name(to);
    if (from != name && final_name(from) == name)
        system_error(name, "rename the new content to this name", error_number);
    system_error(to, fmt::format("{} {} to this name", verb, from), error_number);
}

}  // namespace

std::string_view kind_of(unsigned mode) {
    switch (mode & S_IFMT) {
        case S_IFDIR:
            return "directory";
        case S_IFLNK:
            return "symbolic link";
        case S_IFIFO:
            return "FIFO";
        case S_IFSOCK:
            return "socket";
        case S_IFCHR:
            return "character device";
        case S_IFBLK:
            return "block device";
        default:
            return "regular file";
    }
}

int open_regular(const std::string& path, int flags, unsigned mode) {
    const auto open = [&](int more) {
        return retried([&] { return ::open(path.c_str(), flags | O_CLOEXEC | more, mode); });
    };
    // O_NONBLOCK: open() of a FIFO does not wait. On a regular file it only has the effect that
    // open() fails while another process holds a lease on the file (open(2)).
    Fd fd(open(O_NONBLOCK));
    if (!fd.valid() && errno == EWOULDBLOCK) fd = Fd(open(0));
    const int error = fd.valid() ? 0 : errno;
    struct stat status {};
    // ENXIO: a socket, or a FIFO without a reader. ELOOP: a link.
    const bool known = fd.valid() ? ::fstat(fd.get(), &status) == 0
                                  : (error == ENXIO || error == ELOOP || error == EISDIR) &&
                                        ::lstat(path.c_str(), &status) == 0;
    const bool link = S_ISLNK(status.st_mode);  // without O_NOFOLLOW: a cycle of links
    if (known && !S_ISREG(status.st_mode) && (!link || (flags & O_NOFOLLOW)))
        run_error(path, "is a {}, expected a regular file", kind_of(status.st_mode));
    errno = error;
    return fd.release();
}

int create(const std::string& path, int flags, unsigned mode) {
    const int fd =
        faulted("create", path) ? -1 : open_regular(path, O_CREAT | O_NOFOLLOW | flags, mode);
    if (fd >= 0) return fd;
    if (errno == EEXIST && (flags & O_EXCL)) return -1;
    if (errno == ENOENT) no_parent(path, "create");
    output_error(path, "create", errno);
}

namespace {

// Returns the target of a link. Throws for a link of another user, which may lead to a file of this
// user: in shared directories the kernel follows such a link only if fs.protected_symlinks is 0.
std::string target_of_own_link(const std::string& path) {
    const Fd link(::open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat status {};
    if (!link.valid() || ::fstat(link.get(), &status) != 0)
        system_error(path, "get the status", errno);
    if (status.st_uid != ::geteuid() && status.st_uid != 0)
        usage_error(path, "is a symbolic link of another user: remove it, or choose another name");
    std::array<char, PATH_MAX> text{};
    const ssize_t n = ::readlinkat(link.get(), "", text.data(), text.size());
    if (n < 0) system_error(path, "read the link", errno);
    std::string target(text.data(), static_cast<size_t>(n));
    return target.starts_with('/') ? target : parent_of(path) + "/" + target;
}

constexpr int most_links = 40;  // as in the kernel

// Opens `path` to append to it. Sets `is_descriptor` for a descriptor of this process, such as
// /dev/stderr, which is a link to a link in /proc.
int open_to_append(const std::string& path, bool& is_descriptor) {
    std::string at = path;
    for (int n = 0; n < most_links; ++n) {
        is_descriptor = at.starts_with("/proc/");
        // O_NONBLOCK: open() of a FIFO does not wait for a reader.
        const int flags = O_CREAT | O_CLOEXEC | O_WRONLY | O_APPEND | O_NONBLOCK |
                          (is_descriptor ? 0 : O_NOFOLLOW);
        const int fd = retried([&] { return ::open(at.c_str(), flags, 0666); });
        if (fd >= 0 || errno != ELOOP) return fd;
        at = target_of_own_link(at);
    }
    errno = ELOOP;
    return -1;
}

}  // namespace

int append_to(const std::string& path) {
    bool is_descriptor = false;
    Fd fd(faulted("create", path) ? -1 : open_to_append(path, is_descriptor));
    const int error = fd.valid() ? 0 : errno;
    struct stat status {};
    const bool known =
        (fd.valid() ? ::fstat(fd.get(), &status) : ::stat(path.c_str(), &status)) == 0;
    if (known && !S_ISREG(status.st_mode) && !S_ISCHR(status.st_mode) && !is_descriptor)
        usage_error(path, "is a {}, expected a regular file", kind_of(status.st_mode));
    if (fd.valid()) {
        ::fcntl(fd.get(), F_SETFL, O_APPEND);
        return fd.release();
    }
    if (error == ENOENT) no_parent(path, "create");
    output_error(path, "create", error);
}

std::string target_of_own_links(const std::string& path) {
    std::string at = path;
    struct stat status {};
    for (int n = 0; ::lstat(at.c_str(), &status) == 0 && S_ISLNK(status.st_mode); ++n) {
        if (n == most_links) system_error(path, "open", ELOOP);
        at = target_of_own_link(at);
    }
    return at;
}

namespace {

// Writes all bytes. When the kernel refuses a write with EINVAL, returns false if `may_be_invalid`,
// else throws.
bool write_all(int fd, const std::string& path, std::span<const std::byte> bytes, i64 offset,
               bool may_be_invalid) {
    const fault::Action action =
        fault::next("write", path, {.from = {}, .offset = offset, .bytes = bytes});
    if (action == fault::Action::fail) output_error(path, "write", fault::error_number());
    if (action == fault::Action::cached_only && may_be_invalid) return false;
    if (action == fault::Action::short_write) bytes = bytes.first(bytes.size() / 2);
    while (!bytes.empty()) {
        const ssize_t n = retried([&] {
            const ssize_t at = ::pwrite(fd, bytes.data(), bytes.size(), offset);
            return at < 0 && errno == ESPIPE ? ::write(fd, bytes.data(), bytes.size()) : at;
        });
        if (n < 0 && errno == EINVAL && may_be_invalid && action == fault::Action::none)
            return false;
        // A short write is continued. POSIX allows the result 0 only when the device is full.
        if (n <= 0) output_error(path, "write", n == 0 ? ENOSPC : errno);
        bytes = bytes.subspan(static_cast<size_t>(n));
        offset += n;
    }
    if (action == fault::Action::short_write) output_error(path, "write", ENOSPC);
    return true;
}

}  // namespace

void write_at(int fd, const std::string& path, std::span<const std::byte> bytes, i64 offset) {
    write_all(fd, path, bytes, offset, false);
}

bool write_direct(int fd, const std::string& path, std::span<const std::byte> bytes, i64 offset) {
    return write_all(fd, path, bytes, offset, true);
}

namespace {

// Reads until `bytes` is full or the file ends; returns the number of bytes. Returns -1 when the
// kernel refuses the first read with EINVAL.
i64 read_all(int fd, const std::string& path, std::span<std::byte> bytes, i64 offset) {
    if (fault::read_fails(path)) system_error(path, "read", fault::error_number());
    size_t done = 0;
    while (done < bytes.size()) {
        const std::span<std::byte> rest = bytes.subspan(done);
        const ssize_t n = retried(
            [&] { return ::pread(fd, rest.data(), rest.size(), offset + static_cast<i64>(done)); });
        if (n < 0 && errno == EINVAL) return done == 0 ? -1 : static_cast<i64>(done);
        if (n < 0) system_error(path, "read", errno);
        if (n == 0) break;
        done += static_cast<size_t>(n);
    }
    return static_cast<i64>(done);
}

}  // namespace

void read_at(int fd, const std::string& path, std::span<std::byte> bytes, i64 offset) {
    const i64 n = read_all(fd, path, bytes, offset);
    if (n < 0) system_error(path, "read", EINVAL);
    if (n < static_cast<i64>(bytes.size())) {
        run_error(path, "truncated: ends at byte {}, expected {} bytes from byte {}", offset + n,
                  bytes.size(), offset);
    }
}

i64 read_direct(int fd, const std::string& path, std::span<std::byte> bytes, i64 offset) {
    return std::max<i64>(0, read_all(fd, path, bytes, offset));
}

void reserve(int fd, const std::string& path, i64 size) {
    const int result = faulted("reserve", path, {.from = {}, .offset = size, .bytes = {}})
                           ? -1
                           : retried([&] { return size == 0 ? 0 : ::fallocate(fd, 0, 0, size); });
    if (result == 0) return;
    // NFS and other file systems cannot reserve space. There, a full disk causes an error only at a
    // write.
    if (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL) return truncate(fd, path, size);
    output_error(path, "write", errno);
}

void truncate(int fd, const std::string& path, i64 size) {
    const int result = faulted("truncate", path, {.from = {}, .offset = size, .bytes = {}})
                           ? -1
                           : retried([&] { return ::ftruncate(fd, size); });
    if (result != 0) output_error(path, "set the size", errno);
}

void copy_to(int fd, const std::string& path, i64 offset, int source,
             const std::string& source_path, i64 n) {
    loff_t from = 0;
    loff_t to = offset;
    if (faulted("write", path)) output_error(path, "write", errno);
    // Tries copy_file_range() first, because it does not copy through user space, and on btrfs, XFS
    // and NFS 4.2 the two files share blocks.
    while (from < n) {
        const ssize_t got = retried([&] {
            return ::copy_file_range(source, &from, fd, &to, static_cast<size_t>(n - from), 0);
        });
        if (got > 0) continue;
        if (got == 0)
            run_error(source_path,
                      "became shorter during the copy: stop the program that writes this file, and "
                      "copy it again");
        if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG || errno == EIO)
            output_error(path, "write", errno);
        break;  // copy_file_range() does not support these file systems; the loop below copies
    }
    std::vector<std::byte> block(static_cast<size_t>(std::min<i64>(n - from, i64{4} << 20)));
    while (from < n) {
        const auto want = static_cast<size_t>(std::min(n - from, static_cast<i64>(block.size())));
        const ssize_t got = retried([&] { return ::pread(source, block.data(), want, from); });
        if (got < 0) system_error(source_path, "read", errno);
        if (got == 0)
            run_error(source_path,
                      "became shorter during the copy: stop the program that writes this file, and "
                      "copy it again");
        write_at(fd, path, std::span(block).first(static_cast<size_t>(got)), to);
        from += got;
        to += got;
    }
}

void fsync(int fd, const std::string& path) {
    const int result = faulted("fsync", path) ? -1 : retried([&] { return ::fsync(fd); });
    if (result == 0) return;
    // Some network and FUSE file systems do not support fsync() of directories.
    if ((errno == EINVAL || errno == ENOTSUP) && is_directory(path)) return;
    output_error(path, "make durable (fsync)", errno);
}

void fsync_path(const std::string& path) {
    const Fd fd(retried([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC); }));
    if (!fd.valid()) output_error(path, "open", errno);
    fsync(fd.get(), path);
}

void fsync_parent_of(const std::string& path) {
    fsync_path(parent_of(path));
}

void symlink(const std::string& target, const std::string& path) {
    if (faulted("create", path) || ::symlink(target.c_str(), path.c_str()) != 0)
        system_error(path, "create", errno);
}

void rename(const std::string& from, const std::string& to) {
    if (faulted("rename", to, {.from = from, .offset = 0, .bytes = {}}) ||
        ::rename(from.c_str(), to.c_str()) != 0) {
        rename_error(from, to, "rename", errno);
    }
}

namespace {

// If `to` is a second name of the file `from` (a hard link), removes the name `from` and returns
// true. Returns false when `to` is another file.
bool finish_link(const std::string& from, const std::string& to) {
    if (!is_linked(from, to)) return false;
    unlink(from);
    return true;
}

}  // namespace

bool rename_new(const std::string& from, const std::string& to) {
    if (faulted("rename", to, {.from = from, .offset = 0, .bytes = {}})) {
        rename_error(from, to, "rename", errno);
    }
    if (renameat2(from, to, RENAME_NOREPLACE) == 0) return true;
    if (errno == EEXIST) return finish_link(from, to);
    if (!unsupported(errno)) rename_error(from, to, "rename", errno);
    // NFS and other file systems lack RENAME_NOREPLACE (rename(2)). There, link(2) is used, which
    // also fails with EEXIST if the new name exists. A crash before unlink() leaves two names; the
    // next call removes the old name. Directories, and files on a file system without links, are
    // renamed after a check, which is not atomic.
    if (!is_directory(from)) {
        if (!faulted("link", to) && ::link(from.c_str(), to.c_str()) == 0) {
            unlink(from);
            return true;
        }
        if (errno == EEXIST) return finish_link(from, to);
        if (!unsupported(errno)) rename_error(from, to, "link", errno);
    }
    if (io::exists(to)) return false;
    rename(from, to);
    return true;
}

void exchange_directories(const std::string& fresh, const std::string& old) {
    if (faulted("exchange", old, {.from = fresh, .offset = 0, .bytes = {}}))
        system_error(old, "replace", errno);
    if (renameat2(fresh, old, RENAME_EXCHANGE) == 0) return;
    if (!unsupported(errno)) system_error(old, "replace", errno);
    const std::string aside = temporary_name(old) + ".old";
    rename(old, aside);
    // After a crash here, `old` does not exist, and its content is in `aside`.
    rename(fresh, old);
    // After a crash here, `old` has the new content, and `aside` has the old content.
    rename(aside, fresh);
}

bool exists(const std::string& path) {
    struct stat status {};
    if (fault::read_fails(path)) system_error(path, "get the status", fault::error_number());
    if (::lstat(path.c_str(), &status) == 0) return true;
    if (errno != ENOENT && errno != ENOTDIR) system_error(path, "get the status", errno);
    return false;
}

void make_directory(const std::string& path) {
    if (faulted("mkdir", path) || ::mkdir(path.c_str(), 0777) != 0) {
        const int error = errno;
        struct stat status {};
        if (error == EEXIST && ::lstat(path.c_str(), &status) == 0) {
            if (S_ISDIR(status.st_mode)) return;
            run_error(path, "is a {}, expected a directory: remove it, or choose another name",
                      kind_of(status.st_mode));
        }
        errno = error;
        if (errno == ENOENT) no_parent(path, "create the directory");
        output_error(path, "create the directory", errno);
    }
}

void unlink_in(int in, const char* name, const std::string& path) {
    if (faulted("unlink", path) || ::unlinkat(in, name, 0) != 0) {
        if (errno != ENOENT) system_error(path, "remove", errno);
    }
}

void remove_directory_in(int in, const char* name, const std::string& path) {
    if (faulted("rmdir", path) || ::unlinkat(in, name, AT_REMOVEDIR) != 0) {
        if (errno != ENOENT) system_error(path, "remove the directory", errno);
    }
}

void unlink(const std::string& path) {
    unlink_in(AT_FDCWD, path.c_str(), path);
}

void remove_directory(const std::string& path) {
    remove_directory_in(AT_FDCWD, path.c_str(), path);
}

}  // namespace checked
}  // namespace lm::io
