// SPDX-License-Identifier: Apache-2.0
#include "ckpt/verbs/copy.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <set>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/units.hpp"
#include "ckpt/format/damage.hpp"
#include "ckpt/format/index.hpp"
#include "ckpt/history/leftovers.hpp"
#include "ckpt/history/steps.hpp"
#include "io/append_file.hpp"
#include "io/atomic.hpp"
#include "io/checked.hpp"
#include "io/directory.hpp"
#include "io/file.hpp"
#include "io/filesystem_use.hpp"
#include "io/path.hpp"

namespace lm::ckpt {
namespace {

constexpr std::string_view lock_name = "lock";

// Returns a copy of the index part that lists only weights.
IndexPart weights_of(const IndexPart& part, const std::string& directory) {
    IndexPart weights{part.writer, {}};
    const auto is_weight = [](const Slice& slice) { return slice.kind == SliceKind::weight; };
    for (const DataFile& file : part.files) {
        if (std::ranges::none_of(file.slices, is_weight)) continue;
        if (!std::ranges::all_of(file.slices, is_weight)) {
            run_error(directory + "/" + file.name,
                      "holds weights and optimizer state in one file, so its optimizer state "
                      "cannot be dropped: keep or copy the whole step");
        }
        weights.files.push_back(file);
    }
    return weights;
}

void add_files(CopyPlan& plan, const IndexPart& part) {
    std::ranges::copy(part.files, std::back_inserter(plan.files));
}

void add_tokenizer(CopyPlan& plan, const Manifest& manifest) {
    for (const TokenizerFile& file : read_tokenizer_files(plan.from, manifest.tokenizer.files)) {
        plan.documents.emplace_back(file.name, *file.text);
    }
}

std::string read_document(const std::string& directory, const IndexReference& reference) {
    const std::string path = directory + "/" + reference.file;
    std::string text = read_step_file(path);
    if (digest(text) != reference.digest) {
        run_error(path,
                  "does not match its digest in {}: it was replaced after the step was opened: "
                  "copy again",
                  manifest_file);
    }
    return text;
}

void plan_all(CopyPlan& plan, const Checkpoint& checkpoint) {
    const std::string path = fmt::format("{}/{}", plan.from, manifest_file);
    std::string text = read_step_file(path);
    const Manifest manifest = parse_manifest(text, path);
    for (const IndexReference& reference : manifest.index) {
        plan.documents.emplace_back(reference.file, read_document(plan.from, reference));
    }
    for (const IndexPart& part : checkpoint.parts()) add_files(plan, part);
    add_tokenizer(plan, manifest);
    plan.documents.emplace_back(manifest_file, std::move(text));
}

void plan_weights(CopyPlan& plan, const Checkpoint& checkpoint) {
    Manifest manifest = checkpoint.manifest();
    manifest.index.clear();
    for (size_t at = 0; at < checkpoint.parts().size(); ++at) {
        const IndexPart weights = weights_of(checkpoint.parts()[at], plan.from);
        if (weights.files.empty()) continue;
        std::string text = index_text(weights);
        IndexReference reference = reference_to(weights, text);
        add_files(plan, weights);
        plan.documents.emplace_back(reference.file, std::move(text));
        manifest.index.push_back(std::move(reference));
    }
    add_tokenizer(plan, manifest);
    plan.documents.emplace_back(manifest_file, manifest_text(manifest));
}

class Copier {
  public:
    Copier(const CopyPlan& plan, const std::string& path, const CopyOptions& options)
        : plan_(plan), path_(path), temporary_(copy_temporary(path)), options_(options) {}

    CopyResult run() {
        // A lock on a file in the temporary directory excludes other copies to `path_`. The lock
        // ends when this process ends, even by a kill.
        refuse_existing();
        directory_ = io::Directory::create(temporary_);
        auto lock = io::AppendFile::open(in(std::string(lock_name)));
        if (!lock.lock())
            run_error(
                temporary_,
                "another lm-ckpt process is copying to this directory: wait until it has ended");
        refuse_existing();  // another copy may have finished before the lock
        const CopyResult result = copy_all();
        // The manifest is the last document, so that a directory with a manifest has all its files.
        for (const auto& [name, text] : plan_.documents) {
            io::write_file(in(name), text, io::Overwrite::yes);
        }
        remove_others();
        // Every file is durable now. This call makes the names of the files durable, before the
        // rename publishes them.
        io::checked::fsync_path(directory_->path());
        publish();
        return result;
    }

  private:
    std::string in(const std::string& name) const { return *directory_ / name; }

    void refuse_existing() const {
        if (options_.replace || !io::exists(path_)) return;
        run_error(path_,
                  "exists already, but is incomplete or differs from the source: use --force to "
                  "replace it");
    }

    CopyResult copy_all() const {
        try {
            return copy_files(plan_.source, plan_.files, directory_->path(), options_);
        } catch (const DamageError&) {
            if (plan_.source.is_current()) throw;
            run_error(plan_.from, "was replaced or removed during the copy: copy again");
        }
    }

    // Removes the lock file, and the files of an earlier copy that this copy does not have.
    void remove_others() const {
        std::set<std::string> wanted;
        for (const DataFile& file : plan_.files) wanted.insert(file.name);
        for (const auto& [name, text] : plan_.documents) wanted.insert(name);
        for (const std::string& name : io::list_directory(directory_->path())) {
            if (!wanted.contains(name)) io::remove_tree(in(name));
        }
    }

    void publish() const {
        directory_->check_name();
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
    std::optional<io::Directory> directory_;  // the temporary directory
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

i64 CopyPlan::n_bytes() const {
    i64 total = 0;
    for (const DataFile& file : files) total += file.size;
    return total;
}

CopyPlan plan_copy(const Checkpoint& checkpoint, bool weights_only) {
    CopyPlan plan{checkpoint, checkpoint.path(), {}, {}};
    const std::vector<KindTotal> kinds = checkpoint.manifest().totals().kinds;
    const bool drops_state = weights_only && std::ranges::any_of(kinds, [](const KindTotal& total) {
                                 return total.kind != SliceKind::weight;
                             });
    drops_state ? plan_weights(plan, checkpoint) : plan_all(plan, checkpoint);
    return plan;
}

void link(const CopyPlan& plan, const io::Directory& directory) {
    const std::string from = std::filesystem::absolute(plan.from).string();
    for (const DataFile& file : plan.files) {
        const std::string target = fmt::format("{}/{}", from, file.name);
        if (!std::filesystem::is_regular_file(std::filesystem::symlink_status(target)))
            run_error(target, "expected a file, not a link or a special file: use another step");
        io::checked::symlink(target, directory / file.name);
    }
    for (const auto& [name, text] : plan.documents) {
        io::write_file(directory / name, text, io::Overwrite::no);
    }
}

bool is_copied(const CopyPlan& plan, const std::string& path) {
    const auto& [name, text] = plan.documents.back();
    const std::string file = path + "/" + name;
    return io::exists(file) && io::read_file(file) == text;
}

std::string copy_temporary(const std::string& path) {
    return path + std::string(copy_mark);
}

namespace {

struct Space {
    i64 needed = 0;
    i64 available = 0;
};

// The directory of `path` may not exist yet, and a refused copy must not create it, so the nearest
// existing directory is examined.
Space space_for(const CopyPlan& plan, const std::string& path) {
    const io::FilesystemUse use = io::filesystem_use(io::nearest_existing(io::parent_of(path)));
    const std::string temporary = copy_temporary(path);
    const i64 copied = io::is_directory(temporary) ? tree_bytes(temporary) : 0;
    return {allocated_bytes(plan, use.block) - copied, use.available};
}

}  // namespace

bool has_space(const CopyPlan& plan, const std::string& path) {
    const Space space = space_for(plan, path);
    return space.needed <= space.available;
}

void require_space(const CopyPlan& plan, const std::string& path) {
    const Space space = space_for(plan, path);
    if (space.needed <= space.available) return;
    run_error(io::parent_of(path),
              "{} needs {}, but only {} is available: free space, or choose another directory",
              io::base_name(path), human_size(space.needed), human_size(space.available));
}

CopyResult copy(const CopyPlan& plan, const std::string& path, const CopyOptions& options) {
    return Copier(plan, path, options).run();
}

}  // namespace lm::ckpt
