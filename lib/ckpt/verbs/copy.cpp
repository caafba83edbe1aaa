// SPDX-License-Identifier: Apache-2.0
#include "ckpt/verbs/copy.hpp"

#include <set>

#include "base/error.hpp"
#include "base/units.hpp"
#include "ckpt/history/leftovers.hpp"
#include "ckpt/history/steps.hpp"
#include "io/append_file.hpp"
#include "io/atomic.hpp"
#include "io/checked.hpp"
#include "io/file.hpp"
#include "io/filesystem_use.hpp"
#include "io/path.hpp"

namespace lm::ckpt {
namespace {

constexpr std::string_view lock_name = "lock";

class Copier {
  public:
    Copier(const CopyPlan& plan, const std::string& path, const CopyOptions& options)
        : plan_(plan), path_(path), temporary_(copy_temporary(path)), options_(options) {}

    CopyResult run() {
        // A lock on a file in the temporary directory excludes other copies to `path_`. The lock
        // ends when this process ends, even by a kill.
        refuse_existing();
        io::checked::make_directory(temporary_);
        auto lock = io::AppendFile::open(in(std::string(lock_name)));
        if (!lock.lock())
            run_error(
                temporary_,
                "another lm-ckpt process is copying to this directory: wait until it has ended");
        refuse_existing();  // another copy may have finished before the lock
        const CopyResult result = copy_files(plan_.source, plan_.files, temporary_, options_);
        // The manifest is the last document, so that a directory with a manifest has all its files.
        for (const auto& [name, text] : plan_.documents) {
            io::write_file(in(name), text, io::Overwrite::yes);
        }
        remove_others();
        // Every file is durable now. This call makes the names of the files durable, before the
        // rename publishes them.
        io::checked::fsync_path(temporary_);
        publish();
        return result;
    }

  private:
    std::string in(const std::string& name) const { return temporary_ + "/" + name; }

    void refuse_existing() const {
        if (options_.replace || !io::exists(path_)) return;
        run_error(path_,
                  "exists already, but is incomplete or differs from the source: use --force to "
                  "replace it");
    }

    // Removes the lock file, and the files of an earlier copy that this copy does not have.
    void remove_others() const {
        std::set<std::string> wanted;
        for (const DataFile& file : plan_.files) wanted.insert(file.name);
        for (const auto& [name, text] : plan_.documents) wanted.insert(name);
        for (const std::string& name : io::list_directory(temporary_)) {
            if (!wanted.contains(name)) io::remove_tree(in(name));
        }
    }

    void publish() const {
        if (options_.replace && io::exists(path_)) {
            io::checked::exchange_directories(temporary_, path_);
        } else if (!io::checked::rename_new(temporary_, path_)) {
            run_error(path_, "was created by another program during the copy: left unchanged");
        }
        io::checked::fsync_parent_of(path_);
        io::remove_tree(temporary_);  // the old step, if names were exchanged
    }

    const CopyPlan& plan_;
    const std::string& path_;
    std::string temporary_;
    const CopyOptions& options_;
};

// Returns the bytes that a file system with blocks of `block` bytes allocates for the copy.
i64 allocated_bytes(const CopyPlan& plan, i64 block) {
    i64 total = block;  // the directory
    for (const DataFile& file : plan.files) total += round_up(file.size, block);
    for (const auto& [name, text] : plan.documents) {
        total += round_up(static_cast<i64>(text.size()), block);
    }
    return total;
}

}  // namespace

std::string copy_temporary(const std::string& path) {
    return path + std::string(copy_mark);
}

void require_space(const CopyPlan& plan, const std::string& path) {
    const std::string directory = io::parent_of(path);
    // `directory` may not exist yet, and a refused copy must not create it, so the nearest existing
    // directory is examined.
    const io::FilesystemUse use = io::filesystem_use(io::nearest_existing(directory));
    const std::string temporary = copy_temporary(path);
    const i64 needed = allocated_bytes(plan, use.block) -
                       (io::is_directory(temporary) ? tree_bytes(temporary) : 0);
    if (needed <= use.available) return;
    run_error(directory,
              "{} needs {}, but only {} is available: free space, or choose another directory",
              io::base_name(path), human_size(needed), human_size(use.available));
}

CopyResult copy(const CopyPlan& plan, const std::string& path, const CopyOptions& options) {
    return Copier(plan, path, options).run();
}

}  // namespace lm::ckpt
