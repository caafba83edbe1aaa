// SPDX-License-Identifier: Apache-2.0
// Outputs that appear whole or not at all, and the names of their temporaries. The toolkit writes
// every file through AtomicFile, AtomicDirectory, AppendFile, BlockFile or the functions of
// io/checked.hpp, so that a test can make the k-th operation fail or write fewer bytes, or kill the
// process at that operation (io/fault.hpp).
//
// Steps of AtomicFile, and what a crash after each step leaves:
//
//     create PATH.tmp.HOST.PID (O_EXCL), write   the old PATH or none, and a temporary
//     fsync of the temporary                     as before; the temporary survives a power cut
//     rename to PATH                             the new PATH; a power cut may restore the old
//     fsync of the parent directory              the new PATH, also after a power cut
//
// rename() is atomic for all readers (POSIX.1-2017, rename()), but neither file content nor
// directory entries are durable before fsync() of the file and of its directory (fsync(2), NOTES).
//
// Every error is Error(failure) naming the path and the reason of the system, unless stated
// otherwise.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"

namespace lm::io {

enum class Overwrite { no, yes };

// A file that is written under a temporary name; commit() renames it to its final name. If commit()
// was not called, the destructor removes the temporary file. Not thread-safe, except that several
// threads may call write_at() after a flush.
class AtomicFile {
  public:
    // Creates the temporary of `path`. With Overwrite::no, throws Error(usage) "PATH: exists
    // already: use --force to replace it" when `path` exists, and commit() throws Error(failure)
    // when a file was created in the meantime. With Overwrite::yes, a regular file is replaced. So
    // is a symbolic link to a regular file or to nothing, but not the target of the link. Any other
    // kind of file is Error(usage).
    static AtomicFile create(const std::string& path, Overwrite overwrite);
    ~AtomicFile();
    AtomicFile(AtomicFile&&) noexcept;
    AtomicFile& operator=(AtomicFile&&) noexcept;  // removes this object's temporary

    const std::string& path() const;               // the final name
    const std::string& temporary() const;          // the name until commit()
    void write(std::span<const std::byte> bytes);  // appends; buffered
    void write(std::string_view text);
    // Flushes, then writes `bytes` at `offset` of the file. size() does not change.
    void write_at(std::span<const std::byte> bytes, i64 offset);
    // Flushes, then reads bytes.size() appended bytes from `offset` on.
    void read_back(std::span<std::byte> bytes, i64 offset);
    i64 size() const;  // bytes appended so far
    void flush();
    // Flushes, makes the content durable and closes the file, which keeps its temporary name.
    // Writers of several files that must appear together sync() all of them, then commit() in the
    // order that their format documents.
    void sync();
    // Calls sync() if it was not called, renames the file to its final name and makes the new name
    // durable. When only making the name durable fails, the file has its final name but may not
    // survive a power cut.
    void commit();

  private:
    struct State;
    explicit AtomicFile(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

// A directory that appears whole. Files are written into path(), the open directory
// FINAL.tmp.SUFFIX (io/directory.hpp).
// commit() makes every file and directory in path() durable, renames it to FINAL and makes that
// name durable. Without a commit() the destructor removes path(). An existing FINAL is refused or
// replaced as for AtomicFile. To replace FINAL, commit() exchanges the two names in
// one step where the file system supports this (local file systems do). On NFS, a crash after the
// first of three renames leaves no FINAL, the new content as FINAL.tmp.SUFFIX and the old content
// as temporary_name(FINAL).old, which stale_temporaries() never lists.
class AtomicDirectory {
  public:
    // Creates the temporary directory; removes an existing directory of that name first.
    static AtomicDirectory create(std::string final_path, std::string_view suffix,
                                  Overwrite overwrite);
    ~AtomicDirectory();
    AtomicDirectory(AtomicDirectory&&) noexcept;
    AtomicDirectory& operator=(AtomicDirectory&&) noexcept;
    const std::string& path() const;  // the temporary directory, for its files, until commit()
    const std::string& final_path() const;
    void commit();

  private:
    struct State;
    explicit AtomicDirectory(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

// Writes a small file through an AtomicFile.
void write_file(const std::string& path, std::string_view content, Overwrite overwrite);

// Returns PATH.tmp.HOST.PID. When that name exists, AtomicFile appends ".2", ".3", ...
std::string temporary_name(const std::string& path);

// Returns whether temporary_name() may have made `name`: BASE.tmp.HOST.PID, also with the suffix
// ".2", ".3", ... of AtomicFile or ".old" of checked::exchange_directories().
bool is_temporary_name(std::string_view name);
bool all_digits(std::string_view text);  // false for an empty text

// Returns the abandoned temporaries of `path`, sorted. A temporary of this host is abandoned when
// its process has ended; a temporary of another host, when it was not modified for more than a day.
std::vector<std::string> stale_temporaries(const std::string& path);

}  // namespace lm::io
