// SPDX-License-Identifier: Apache-2.0
// One function for each system call that changes files, and for the reads of checkpoints. Every
// function calls the fault layer (io/fault.hpp), repeats the system call on EINTR, and either
// completes or throws Error(failure) naming the path, the reason and, if the user can help, a
// remedy. io/atomic.hpp, io/append_file.hpp and io/block_file.hpp use these functions. Logs and
// shared memory use them directly.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/types.hpp"
#include "io/atomic.hpp"

namespace lm::io {

// Throws Error(failure) "PATH: cannot ACTION: <strerror>[: what to do]".
[[noreturn]] void system_error(std::string_view path, std::string_view action, int error_number);

// Returns `path` with the final names of temporary files and directories, whose names contain
// ".tmp.": "m/global_step8" for "m.tmp.vm.7/global_step8.tmp.g0".
std::string final_name(std::string_view path);

namespace checked {

// Returns the name of the kind in a file's mode (struct stat), such as "FIFO".
std::string_view kind_of(unsigned mode);

// Opens a regular file with O_CLOEXEC | `flags` and returns the descriptor, or -1 with errno.
// Throws for a FIFO, socket, device or directory, and with O_NOFOLLOW for a link, naming its kind.
// Never waits for the other end of a FIFO.
int open_regular(const std::string& path, int flags, unsigned mode = 0666);
// Opens `path`, a name that this toolkit chose, for writing with O_CREAT | `flags` as
// open_regular() does, and returns the descriptor. Does not follow a link, because a link in a
// shared directory may lead to a file of the user. Returns -1 when the file exists already and
// `flags` contains O_EXCL. A new file gets the permissions `mode`, without those that the umask
// denies.
int create(const std::string& path, int flags, unsigned mode = 0666);
// Opens `path`, a name that the user gave, to append to it; creates the file if needed. Follows a
// link of this user or of root, and opens character devices and open descriptors such as
// /dev/stderr. Throws Error(usage) for a link of another user, and for a FIFO, whose reader could
// stop the program.
int append_to(const std::string& path);
// Returns `path`, or the file that it leads to when it is a link of this user or of root. Throws
// Error(usage) for a link of another user.
std::string target_of_own_links(const std::string& path);
// Writes all `bytes` at `offset`, or to a pipe, which has none.
void write_at(int fd, const std::string& path, std::span<const std::byte> bytes, i64 offset);
// Writes to an `fd` opened with O_DIRECT; memory, size and offset are multiples of 4096. Returns
// false when the file system refuses direct writes (EINVAL); the caller must then use write_at().
bool write_direct(int fd, const std::string& path, std::span<const std::byte> bytes, i64 offset);
// Reads bytes.size() bytes at `offset`. Throws when the file is too short.
void read_at(int fd, const std::string& path, std::span<std::byte> bytes, i64 offset);
// Reads from an `fd` opened with O_DIRECT; memory, size and offset are multiples of 4096. Returns
// the number of read bytes, which is less than bytes.size() at the end of the file. Returns 0 when
// the file system refuses the read (EINVAL).
i64 read_direct(int fd, const std::string& path, std::span<std::byte> bytes, i64 offset);
// Extends a file to `size` bytes and reserves their space on the disk. Where the file system cannot
// reserve space, only sets the size.
void reserve(int fd, const std::string& path, i64 size);
void truncate(int fd, const std::string& path, i64 size);
// Copies the first `n` bytes of `source` (a file named `source_path`) to `offset` of `fd`, with
// copy_file_range(2) where the file systems support it.
void copy_to(int fd, const std::string& path, i64 offset, int source,
             const std::string& source_path, i64 n);
void fsync(int fd, const std::string& path);
void fsync_path(const std::string& path);       // opens a file or directory and calls fsync()
void fsync_parent_of(const std::string& path);  // fsync() of the directory that contains `path`
void rename(const std::string& from, const std::string& to);
// Renames `from` to `to`. Returns false, without a change, when `to` exists as another file. If an
// earlier call was killed between link() and unlink(), removes the old name.
bool rename_new(const std::string& from, const std::string& to);
// Exchanges the names of two directories, atomically where the file system supports it. Elsewhere
// (NFS) this takes three renames, and a kill between them leaves the old content as
// temporary_name(old) + ".old".
void exchange_directories(const std::string& fresh, const std::string& old);
// Returns whether a file of any type has this name. Throws on an error of the system (EACCES,
// ESTALE, EIO), for which io::exists() returns false. Use this function where a missing file means
// that an output is corrupt.
bool exists(const std::string& path);
// Creates a directory whose name this toolkit chose. Accepts an existing directory, and refuses a
// link to one, because a link in a shared directory may lead to files of the user.
void make_directory(const std::string& path);
// Creates the symbolic link `path`, whose name this toolkit chose, to `target`.
void symlink(const std::string& target, const std::string& path);
void unlink(const std::string& path);
void remove_directory(const std::string& path);
// The same for `name` in the open directory `in`; `path` is its name in messages.
void unlink_in(int in, const char* name, const std::string& path);
void remove_directory_in(int in, const char* name, const std::string& path);

}  // namespace checked

}  // namespace lm::io
