// SPDX-License-Identifier: Apache-2.0
#include "sync/path_target.hpp"

#include <cstdint>

#include "ckpt/history/leftovers.hpp"
#include "ckpt/verbs/copy.hpp"
#include "ckpt/verbs/prune.hpp"
#include "ckpt/verbs/verify.hpp"
#include "io/atomic.hpp"
#include "io/checked.hpp"
#include "io/file.hpp"
#include "io/path.hpp"

namespace lm::sync {

PathTarget::PathTarget(std::string path, std::optional<i64> rate)
    : path_(io::without_trailing_slashes(std::move(path))), rate_(rate) {}

std::function<void(i64)> PathTarget::part_of(i64 total) const {
    if (!progress_) return {};
    return [this, total](i64 done) { progress_(done, total); };
}

void PathTarget::require_space(const std::string& path) {
    ckpt::require_space(ckpt::plan_copy(ckpt::Checkpoint::open(path), false),
                        in(io::base_name(path)));
}

void PathTarget::send_step(const std::string& path) {
    const auto step = ckpt::Checkpoint::open(path);
    const ckpt::CopyPlan plan = ckpt::plan_copy(step, false);
    ckpt::copy(plan, in(io::base_name(path)),
               {.replace = false, .bytes_per_second = rate_, .progress = part_of(plan.n_bytes())});
}

void PathTarget::send_file(const std::string& path, const std::string& name) {
    io::make_directories_in(path_, io::parent_of(name));
    io::write_file(in(name), io::read_file(path, INT64_MAX), io::Overwrite::yes);
}

bool PathTarget::has_directory(const std::string& name) {
    return io::checked::exists(in(name)) && !io::list_directory(in(name)).empty();
}

void PathTarget::rename(const std::string& from, const std::string& to) {
    io::make_directories_in(path_, io::parent_of(to));
    io::checked::rename(in(from), in(to));
    io::checked::fsync_parent_of(in(to));
    io::checked::fsync_path(path_);
}

void PathTarget::remove_step(const std::string& name) {
    ckpt::remove_whole(path_, name);
}

bool PathTarget::same_bytes(const std::string& path) {
    const std::string copy = in(io::base_name(path));
    return ckpt::verify(copy, part_of(ckpt::tree_bytes(copy))).problems.empty();
}

void PathTarget::drop_state(const std::string& name) {
    ckpt::prune(path_, {{}, {{ckpt::PruneKind::optimizer_state, name, 0}}, {}}, nullptr, progress_);
}

}  // namespace lm::sync
