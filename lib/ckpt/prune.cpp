// SPDX-License-Identifier: Apache-2.0
#include "ckpt/prune.hpp"

#include <algorithm>

#include "ckpt/manifest.hpp"
#include "ckpt/steps.hpp"
#include "io/checked.hpp"
#include "io/file.hpp"

namespace lm::ckpt {
namespace {

constexpr std::string_view removal_mark = ".tmp.removed";

}  // namespace

std::vector<i64> steps_to_remove(std::vector<i64> complete_steps, const KeepPolicy& policy,
                                 std::optional<i64> latest) {
    std::ranges::sort(complete_steps);
    const auto n = static_cast<i64>(complete_steps.size());
    std::vector<i64> removed;
    for (i64 i = 0; i < n; ++i) {
        const i64 step = complete_steps[static_cast<size_t>(i)];
        const bool kept = i >= n - std::max<i64>(1, policy.last) || step == latest ||
                          (policy.every > 0 && step % policy.every == 0) ||
                          std::ranges::find(policy.steps, step) != policy.steps.end();
        if (!kept) removed.push_back(step);
    }
    return removed;
}

void remove_step(const std::string& directory, i64 step) {
    const std::string path = directory + "/" + step_name(step);
    const std::string aside = path + std::string(removal_mark);
    io::remove_tree(aside);
    io::checked::rename(path, aside);
    io::checked::fsync_parent_of(path);
    io::remove_tree(aside);
}

void finish_removals(const std::string& directory) {
    for (const std::string& name : io::list_directory(directory)) {
        if (!name.ends_with(removal_mark)) continue;
        const std::string_view step(name.data(), name.size() - removal_mark.size());
        if (step_from_name(step) >= 0) io::remove_tree(directory + "/" + name);
    }
}

}  // namespace lm::ckpt
