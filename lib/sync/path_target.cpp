// SPDX-License-Identifier: Apache-2.0
// A sync target that is a directory of this machine. send_step() verifies every byte.
#include "sync/sync_target.hpp"

#include <cstdint>

#include "ckpt/history/leftovers.hpp"
#include "ckpt/history/steps.hpp"
#include "ckpt/verbs/copy.hpp"
#include "ckpt/verbs/prune.hpp"
#include "ckpt/verbs/verify.hpp"
#include "io/atomic.hpp"
#include "io/checked.hpp"
#include "io/directory.hpp"
#include "io/file.hpp"
#include "io/path.hpp"

namespace lm::sync {
namespace {

class PathTarget final : public SyncTarget {
  public:
    // `rate`: the largest number of bytes per second; nullopt: no limit.
    PathTarget(std::string path, std::optional<i64> rate)
        : path_(io::without_trailing_slashes(std::move(path))), rate_(rate) {}

    bool is_remote() const override { return false; }
    std::vector<std::string> files() override {
        return io::exists(path_) ? io::list_directory(path_) : std::vector<std::string>();
    }

    std::string manifests(const std::string&) override {
        io::make_directories(path_);
        remove_stale(in(std::string(ckpt::latest_file)));
        return path_;
    }

    bool has_space(const std::string& path, i64) override {
        return ckpt::has_space(plan_of(path), in(io::base_name(path)));
    }
    void require_space(const std::string& path) override {
        ckpt::require_space(plan_of(path), in(io::base_name(path)));
    }

    void send_step(const std::string& path) override {
        const ckpt::CopyPlan plan = plan_of(path);
        ckpt::copy(
            plan, in(io::base_name(path)),
            {.replace = false, .bytes_per_second = rate_, .progress = part_of(plan.n_bytes())});
    }

    void send_file(const std::string& path, const std::string& name) override {
        const auto directory = io::make_directories_in(path_, io::parent_of(name));
        remove_stale(directory / io::base_name(name));
        io::write_file(directory / io::base_name(name),
                       io::read_file(path, INT64_MAX, io::Links::refuse), io::Overwrite::yes);
    }

    bool has_directory(const std::string& name) override {
        return io::checked::exists(in(name)) && !io::list_directory(in(name)).empty();
    }

    void rename(const std::string& from, const std::string& to) override {
        const auto directory = io::make_directories_in(path_, io::parent_of(to));
        io::checked::rename(in(from), directory / io::base_name(to));
        io::checked::fsync_path(directory.path());
        io::checked::fsync_path(path_);
    }

    void remove_step(const std::string& name) override { ckpt::remove_whole(path_, name); }
    bool same_bytes(const std::string& path) override {
        const std::string copy = in(io::base_name(path));
        return ckpt::verify(copy, part_of(ckpt::tree_bytes(copy))).problems.empty();
    }

    bool can_drop_state() const override { return true; }
    void drop_state(const std::string& name) override {
        ckpt::prune(path_, {{}, {{ckpt::PruneKind::optimizer_state, name, 0}}, {}}, nullptr,
                    progress_);
    }

  private:
    static ckpt::CopyPlan plan_of(const std::string& step) {
        return ckpt::plan_copy(ckpt::Checkpoint::open(step), false);
    }
    std::string in(const std::string& name) const { return path_ + "/" + name; }
    // Removes what killed syncs have left beside the file `path`.
    static void remove_stale(const std::string& path) {
        for (const std::string& old : io::stale_temporaries(path)) io::remove_tree(old);
    }
    // Returns a function that reports `done` of `total` bytes to the callback of set_progress(); an
    // empty function when there is no callback.
    std::function<void(i64 done)> part_of(i64 total) const {
        if (!progress_) return {};
        return [this, total](i64 done) { progress_(done, total); };
    }

    std::string path_;
    std::optional<i64> rate_;
};

}  // namespace

std::unique_ptr<SyncTarget> path_target(const std::string& path, const TransferOptions& options) {
    return std::make_unique<PathTarget>(path, options.bytes_per_second);
}

}  // namespace lm::sync
