// SPDX-License-Identifier: Apache-2.0
// Why the files of a temporary directory are reached through its descriptor.
//
// A user who may write to the parent directory can rename a directory that this toolkit has just
// created, and plant a link under its name. A path through that name would then lead to any
// directory of the victim, which a copy fills and a clean-up empties. The names below path() start
// at the descriptor (/proc/self/fd/N), so that they always mean the directory that was opened, on
// local file systems as on NFS and Lustre. Where /proc is not mounted, path() is the plain name.
#pragma once

#include <string>

#include "io/file.hpp"

namespace lm::io {

// An open directory. Every error is Error(failure) that names the directory.
class Directory {
  public:
    // Opens the directory `name`. Refuses a link in its place.
    static Directory open(const std::string& name);
    // Creates the directory `name`, if needed, and opens it.
    static Directory create(const std::string& name);

    // The path of the directory for all operations on its files; valid while this object lives.
    const std::string& path() const { return path_; }
    std::string operator/(const std::string& name) const { return path_ + "/" + name; }
    // Throws when another directory or a link has the name. Call this before the name is renamed.
    void check_name() const;

  private:
    Directory(std::string name, Fd fd);
    std::string name_;
    Fd fd_;
    std::string path_;
};

// Creates the directory `relative` in the existing directory `base`, and its parents in `base`, as
// needed, makes them durable and opens the directory. Refuses links below `base`.
Directory make_directories_in(const std::string& base, const std::string& relative);

}  // namespace lm::io
