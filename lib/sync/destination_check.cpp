// SPDX-License-Identifier: Apache-2.0
#include "sync/destination_check.hpp"

#include <fcntl.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/error.hpp"
#include "ckpt/history/generation.hpp"
#include "ckpt/history/steps.hpp"
#include "io/atomic.hpp"
#include "io/checked.hpp"
#include "io/file.hpp"
#include "io/path.hpp"

namespace lm::sync {
namespace {

// Returns the path without links; its last components need not exist.
std::string canonical(const std::string& path) {
    std::error_code ignored;
    const std::filesystem::path absolute = std::filesystem::absolute(path, ignored);
    return io::without_trailing_slashes(
        std::filesystem::weakly_canonical(absolute / "", ignored).string());
}

// A file in a directory for the lifetime of the object. Does nothing when the directory cannot be
// written.
class Probe {
  public:
    explicit Probe(const std::string& directory) : path_(io::temporary_name(directory + "/sync")) {
        try {
            // Killed syncs may have left theirs.
            for (const std::string& old : io::stale_temporaries(directory + "/sync"))
                io::remove_tree(old);
            exists_ = io::Fd(io::checked::create(path_, O_WRONLY | O_EXCL)).valid();
        } catch (const Error&) {
            exists_ = false;
        }
    }
    ~Probe() {
        std::error_code ignored;
        if (exists_) std::filesystem::remove(path_, ignored);
    }
    Probe(const Probe&) = delete;
    Probe& operator=(const Probe&) = delete;

    bool is_in(const std::vector<std::string>& names) const {
        return exists_ && std::ranges::find(names, io::base_name(path_)) != names.end();
    }

  private:
    std::string path_;
    bool exists_ = false;
};

[[noreturn]] void refuse_source(const SyncRequest& request) {
    usage_error(request.destination, "is SRC itself: give another directory as DEST");
}

// Returns the run ids of the source's steps and of their history. Without steps, those of the run
// that has claimed the source.
std::set<std::string> runs_of(const std::string& directory, const ckpt::Lineage& lineage) {
    std::set<std::string> runs;
    const auto add = [&](const std::vector<ckpt::LineageEntry>& entries) {
        for (const ckpt::LineageEntry& entry : entries) runs.insert(entry.run_id);
    };
    for (const ckpt::StepEntry& entry : lineage.steps) {
        if (!entry.manifest) continue;
        runs.insert(entry.manifest->run_id);
        add(entry.manifest->lineage);
    }
    if (lineage.tip) add(lineage.tip->lineage);
    if (runs.empty()) {
        if (const auto claim = ckpt::newest_claim(directory)) add(claim->lineage);
    }
    return runs;
}

}  // namespace

void check_place(const SyncRequest& request, const SyncTarget& target) {
    const std::string& name = request.destination;
    for (size_t begin = 0; begin <= name.size();) {
        const size_t end = std::min(name.find_first_of("/:", begin), name.size());
        const std::string part = name.substr(begin, end - begin);
        if (ckpt::step_from_name(part) >= 0)
            usage_error(name, "leads into the step {}: give another directory as DEST", part);
        begin = end + 1;
    }
    if (target.is_remote()) return;
    const std::string source = canonical(request.source);
    const std::string destination = canonical(name);
    if (source == destination) refuse_source(request);
    if (io::is_below(destination, source))
        usage_error(name, "is inside of SRC: give a directory outside of {} as DEST",
                    request.source);
}

void check_files(const SyncRequest& request, SyncTarget& target) {
    std::optional<Probe> probe;
    // check_place() has compared a local destination. A claimed source shows itself by its claim.
    if (target.is_remote() &&
        std::ranges::none_of(io::list_directory(request.source), ckpt::is_claim))
        probe.emplace(request.source);
    const std::vector<std::string> names = target.files();
    if (probe && probe->is_in(names)) refuse_source(request);
    const auto claim = std::ranges::find_if(names, ckpt::is_claim);
    if (claim == names.end()) return;
    usage_error(request.destination,
                "is the save directory of a training (it has {}), not a backup: give another "
                "directory as DEST",
                *claim);
}

void check_runs(const SyncRequest& request, const ckpt::Lineage& source,
                const ckpt::Lineage& destination) {
    const std::set<std::string> runs = runs_of(request.source, source);
    if (runs.empty()) return;
    for (const ckpt::StepEntry& entry : destination.steps) {
        if (!entry.manifest || entry.manifest->run_id.empty()) continue;
        if (runs.contains(entry.manifest->run_id)) continue;
        usage_error(request.destination,
                    "has {} of another training (run {}): give another directory as DEST",
                    ckpt::step_name(entry.step), entry.manifest->run_id);
    }
}

}  // namespace lm::sync
