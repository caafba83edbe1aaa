// SPDX-License-Identifier: Apache-2.0
// The system calls that change files, one function each: through the fault layer, retried on EINTR,
// complete or Error(failure) naming the path, the reason and a remedy. file.cpp is built on them;
// whoever must write a file otherwise (shared memory, appended logs) uses them too.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/types.hpp"
#include "io/atomic.hpp"

namespace lm::io {

// Throws Error(failure) "PATH: cannot ACTION: <strerror>[: what to do]".
[[noreturn]] void system_error(std::string_view path, std::string_view action, int error_number);

namespace checked {

// Opens `path` for writing with O_CREAT | O_CLOEXEC | `flags`; returns the descriptor, or -1 with
// O_EXCL when it exists already.
int create(const std::string& path, int flags);
void write_at(int fd, const std::string& path, std::span<const std::byte> bytes, i64 offset);
// `fd` was opened with O_DIRECT; memory, size and offset are multiples of 4096. False: the file
// system does not do that; write_at() does.
bool write_past_cache(int fd, const std::string& path, std::span<const std::byte> bytes,
                      i64 offset);
void truncate(int fd, const std::string& path, i64 size);
// `n` bytes of `source` (a file named `source_path`) from its start to `offset` of `fd`; within the
// kernel where the file system can.
void copy_to(int fd, const std::string& path, i64 offset, int source,
             const std::string& source_path, i64 n);
void fsync(int fd, const std::string& path);
void fsync_path(const std::string& path);       // a file or directory by name
void fsync_parent_of(const std::string& path);  // the directory that holds `path`
void rename(const std::string& from, const std::string& to);
// False: `to` exists as another file; no change. What a kill cut short is completed.
bool rename_new(const std::string& from, const std::string& to);
// `old` gets the content of `fresh` and the other way round, in one step where the file system can;
// elsewhere (NFS) a kill in between leaves the old content as temporary_name(old) + ".old".
void exchange_directories(const std::string& fresh, const std::string& old);
void make_directory(const std::string& path);
void unlink(const std::string& path);
void remove_directory(const std::string& path);

}  // namespace checked

std::string parent_of(const std::string& path);  // "a/b" -> "a", "b" -> ".", "/b" -> "/"

}  // namespace lm::io
