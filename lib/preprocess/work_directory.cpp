// SPDX-License-Identifier: Apache-2.0
#include "preprocess/work_directory.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <string_view>

#include "base/error.hpp"
#include "base/log.hpp"
#include "data/indexed/indexed_writer.hpp"
#include "io/atomic.hpp"
#include "io/checked.hpp"
#include "io/file.hpp"

namespace lm::preprocess {
namespace {

// Returns whether the open file still has its name. Another process may have removed the file
// before this process locked it.
bool is_current(const io::AppendFile& file) {
    struct stat open {
    }, named{};
    return ::fstat(file.fd(), &open) == 0 && ::stat(file.path().c_str(), &named) == 0 &&
           open.st_ino == named.st_ino && open.st_dev == named.st_dev;
}

// Removes `beginning` from the front of `name`. Returns false when `name` does not begin with
// `beginning`.
bool consume(std::string_view& name, std::string_view beginning) {
    if (!name.starts_with(beginning)) return false;
    name.remove_prefix(beginning.size());
    return true;
}

bool consume_number(std::string_view& name, size_t fewest_digits) {
    const size_t n = std::min(name.find_first_not_of("0123456789"), name.size());
    name.remove_prefix(n);
    return n >= fewest_digits;
}

bool is_of_part(std::string_view name) {
    if (!consume(name, "part-") || !consume_number(name, 4) || !consume(name, ".")) return false;
    if (name == "journal") return true;
    return consume_number(name, 1) &&
           (name == ".bin" || name == ".lengths" || name == ".documents");
}

// Returns whether `name` is one of the files that are first written under a temporary name.
bool is_of_whole(std::string_view name) {
    if (io::is_temporary_name(name)) name = name.substr(0, name.find(".tmp."));
    if (name == "run.json" || name == "complete") return true;
    return consume(name, "key-") && consume_number(name, 1) &&
           (name == ".bin" || name == ".idx" || name == ".json");
}

bool is_own(const std::string& directory, const std::string& name) {
    struct stat status {};
    if (::lstat((directory + "/" + name).c_str(), &status) != 0)
        return true;  // the file was removed meanwhile
    return S_ISREG(status.st_mode) && (name == "lock" || is_of_part(name) || is_of_whole(name));
}

// Returns the name of a file in the directory that this program did not write; "" if there is none.
std::string foreign_file_in(const std::string& directory) {
    for (const std::string& name : io::list_directory(directory)) {
        const bool nfs_removes_it = name.starts_with(".nfs");  // NFS removes it at the last close
        if (!nfs_removes_it && !is_own(directory, name)) return name;
    }
    return "";
}

}  // namespace

WorkDirectory::WorkDirectory(std::string output_prefix, std::vector<std::string> keys)
    : output_prefix_(std::move(output_prefix)),
      keys_(std::move(keys)),
      path_(output_prefix_ + ".unfinished") {}

std::string WorkDirectory::output_prefix(size_t key) const {
    return fmt::format("{}_{}_document", output_prefix_, keys_[key]);
}

std::vector<std::string> WorkDirectory::output_prefixes() const {
    std::vector<std::string> prefixes;
    for (size_t k = 0; k < keys_.size(); ++k) prefixes.push_back(output_prefix(k));
    return prefixes;
}

std::vector<std::string> WorkDirectory::part_stems(i64 part) const {
    std::vector<std::string> stems;
    for (size_t k = 0; k < keys_.size(); ++k) stems.push_back(part_stem(part, k));
    return stems;
}

std::string WorkDirectory::part_stem(i64 part, size_t key) const {
    return file(fmt::format("part-{:04}.{}", part, key));
}

std::string WorkDirectory::journal(i64 part) const {
    return file(fmt::format("part-{:04}.journal", part));
}

std::string WorkDirectory::assembled(size_t key, const char* suffix) const {
    return file(fmt::format("key-{}{}", key, suffix));
}

WorkDirectory::Found WorkDirectory::claim(bool resume, bool force) {
    if (io::exists(path_) && !io::is_directory(path_))
        usage_error(path_, "exists and is not a directory: choose another --output-prefix");
    const bool existed = io::exists(path_);
    directory_ = io::Directory::create(path_);
    if (existed) refuse_foreign_files();
    make_lock(!existed);
    if (!lock_->lock() || !is_current(*lock_)) {
        lock_.reset();
        usage_error(path_,
                    "another run is writing here: wait until that run has ended, or choose another "
                    "--output-prefix");
    }
    if (!io::exists(run_file())) {
        clear();
        is_new_ = true;
        return Found::nothing;
    }
    if (resume) return io::exists(file("complete")) ? Found::complete : Found::unfinished;
    if (!force) {
        usage_error(
            path_, "{}",
            "left by a run that was killed: --resume continues that run, --force starts again");
    }
    note("{}: left by a run that was killed: removed", path_);
    clear();
    is_new_ = true;
    return Found::nothing;
}

void WorkDirectory::make_lock(bool directory_is_new) {
    try {
        lock_ = std::make_unique<io::AppendFile>(io::AppendFile::open(file("lock")));
    } catch (...) {
        // When another process has created files in the directory meanwhile, rmdir() fails, as
        // intended.
        if (directory_is_new) ::rmdir(path_.c_str());
        throw;
    }
}

// Throws Error(usage) when the directory has files of the user. Must be called before a file is
// created in the directory.
void WorkDirectory::refuse_foreign_files() const {
    const std::vector<std::string> names = io::list_directory(directory_->path());
    if (io::exists(run_file()) && io::exists(file("lock"))) return;
    const std::string foreign =
        io::exists(file("lock")) || names.empty() ? foreign_file_in(directory_->path()) : names[0];
    if (foreign.empty()) return;
    usage_error(
        path_,
        "contains {}, which is not a file of an unfinished run: move it away, or choose another "
        "--output-prefix",
        foreign);
}

// Removes run.json first. If the process is killed after that, the next claim() finds no run.json
// and removes the other files.
void WorkDirectory::clear() const {
    if (io::exists(run_file())) io::checked::unlink(run_file());
    for (const std::string& name : io::list_directory(directory_->path())) {
        if (name != "lock" && is_own(directory_->path(), name)) io::remove_tree(file(name));
    }
}

void WorkDirectory::remove_all() const {
    clear();
    if (io::exists(file("lock"))) io::checked::unlink(file("lock"));
    if (const std::string foreign = foreign_file_in(directory_->path()); !foreign.empty())
        warn("{}: not removed: it contains {}, which is not a file of this program", path_,
             foreign);
    else
        io::checked::remove_directory(path_);
}

bool WorkDirectory::outputs_exist() const {
    for (size_t k = 0; k < keys_.size(); ++k) {
        if (!io::exists(data::idx_path(output_prefix(k)))) return false;
    }
    return true;
}

void WorkDirectory::refuse_existing_outputs(bool force) const {
    for (size_t k = 0; k < keys_.size(); ++k) {
        const std::string prefix = output_prefix(k);
        for (const std::string& path :
             {data::bin_path(prefix), data::idx_path(prefix), data::metadata_path(prefix)}) {
            if (!io::exists(path)) continue;
            if (!force) usage_error(path, "exists already: use --force to replace it");
            struct stat status {};
            if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
                usage_error(path, "exists and is not a regular file: choose another name");
        }
    }
}

void WorkDirectory::move(const std::string& from, const std::string& to, bool force) const {
    if (!io::exists(from)) return;  // an earlier run has renamed it
    if (force) {
        io::checked::rename(from, to);
    } else if (!io::checked::rename_new(from, to)) {
        run_error(to,
                  "was created by another program during this run and is not replaced: use "
                  "--force to replace it");
    }
}

void WorkDirectory::publish(bool force) {
    for (size_t k = 0; k < keys_.size(); ++k) {
        const std::string prefix = output_prefix(k);
        const std::string idx = data::idx_path(prefix);
        if (force && io::exists(assembled(k, ".idx"))) data::remove_index(prefix);
        move(assembled(k, ".bin"), data::bin_path(prefix), force);
        move(assembled(k, ".json"), data::metadata_path(prefix), force);
        io::checked::fsync_parent_of(idx);
        move(assembled(k, ".idx"), idx, force);
        io::checked::fsync_parent_of(idx);
    }
    remove_all();
}

void WorkDirectory::remove() noexcept {
    try {
        if (!io::exists(path_)) return;
        if (!directory_) directory_ = io::Directory::open(path_);
        remove_all();
    } catch (const std::exception& error) {
        warn("{}", error.what());
    }
}

}  // namespace lm::preprocess
