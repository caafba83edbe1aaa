// SPDX-License-Identifier: Apache-2.0
// Outputs that appear whole or not at all, and the names of their temporaries. Every write of the
// toolkit goes through AtomicFile or AtomicDirectory, so that a test can fail, shorten or kill at
// the k-th operation (io/fault.hpp). Every error is Error(failure) that names the path and the
// system's reason, unless stated otherwise.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"

namespace lm::io {

enum class Overwrite { no, yes };

// Written beside the final name (temporary_name(PATH), exclusively created), made durable and
// renamed by commit(); abandoned and removed when destroyed before that. With Overwrite::no an
// existing PATH is Error(usage) at once: "PATH: exists already: use --force to replace it", and
// commit() never replaces a file that came to exist in between (Error(failure)). With
// Overwrite::yes a regular file is replaced (a symbolic link itself, not what it points to);
// anything else is Error(usage). Not thread-safe, but for write_at of different threads after a
// flush().
class AtomicFile {
  public:
    AtomicFile(std::string path, Overwrite overwrite);
    ~AtomicFile();
    AtomicFile(AtomicFile&&) noexcept;
    AtomicFile& operator=(AtomicFile&&) noexcept;  // abandons what it held

    const std::string& path() const;               // the final name
    void write(std::span<const std::byte> bytes);  // appends, buffered
    void write(std::string_view text);
    void write_at(std::span<const std::byte> bytes, i64 offset);  // flushes; does not move the end
    void read_back(std::span<std::byte> bytes, i64 offset);  // what was appended; flushes first
    i64 size() const;                                        // bytes appended so far
    void flush();
    // flush, fsync, close; the file is still under its temporary name. For writers of several files
    // that must appear together: sync all, then commit in the documented order.
    void sync();
    // sync if not done, rename, fsync the parent directory. When the last of these throws, the file
    // stands under its final name but may not outlive a power cut.
    void commit();

  private:
    struct State;
    std::unique_ptr<State> state_;
};

// A directory that appears whole: files are written into path() (FINAL.tmp.SUFFIX), and commit()
// fsyncs every file and directory in it, renames it to its final name and fsyncs the parent.
// Destroyed before that, it removes everything. An existing directory is refused or replaced as for
// AtomicFile; it is exchanged in one step where the file system can (local ones do). On NFS a kill
// in between leaves no final name, the new content under path() and the old one under
// temporary_name(FINAL).old: no stale_temporaries().
class AtomicDirectory {
  public:
    // `suffix` makes the temporary name; a leftover of the same name is removed first.
    AtomicDirectory(std::string final_path, std::string_view suffix, Overwrite overwrite);
    ~AtomicDirectory();
    AtomicDirectory(AtomicDirectory&&) noexcept;
    AtomicDirectory& operator=(AtomicDirectory&&) noexcept;
    const std::string& path() const;  // where to write
    const std::string& final_path() const;
    void commit();

  private:
    struct State;
    std::unique_ptr<State> state_;
};

// Whole content in one atomic step: how `latest` and small documents are written.
void write_file(const std::string& path, std::string_view content, Overwrite overwrite);

// PATH.tmp.HOST.PID: AtomicFile appends ".2", ".3"... to it when that exists already.
std::string temporary_name(const std::string& path);

// Leftovers beside `path` named by temporary_name(), sorted: those of this host whose process is
// dead, and those of other hosts that nobody has written for a day.
std::vector<std::string> stale_temporaries(const std::string& path);

}  // namespace lm::io
