// SPDX-License-Identifier: Apache-2.0
#include "ckpt/verbs/prune.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "ckpt/history/abandon.hpp"
#include "ckpt/history/leftovers.hpp"
#include "ckpt/history/step_lock.hpp"
#include "ckpt/history/steps.hpp"
#include "ckpt/verbs/copy.hpp"
#include "io/checked.hpp"
#include "io/file.hpp"

namespace lm::ckpt {
namespace {

bool contains(const std::vector<i64>& steps, i64 step) {
    return std::ranges::find(steps, step) != steps.end();
}

bool is_saved_by(const std::vector<spec::SaveRange>& schedule, i64 step) {
    for (const spec::SaveRange& range : schedule) {
        if (range.until != 0 && step > range.until) continue;
        return step % range.interval == 0 || step == range.until;
    }
    return false;
}

bool is_kept(const KeepPolicy& policy, i64 step) {
    return (policy.every > 0 && step % policy.every == 0) || contains(policy.steps, step) ||
           is_saved_by(policy.schedule, step);
}

i64 optimizer_bytes(const Manifest& manifest) {
    i64 bytes = 0;
    for (const KindTotal& kind : manifest.totals().kinds) {
        if (kind.kind != SliceKind::weight) bytes += kind.bytes;
    }
    return bytes;
}

const Manifest& manifest_of(const Lineage& lineage, i64 step) {
    const StepEntry* const found = find_step(lineage.steps, step);
    LM_CHECK(found && found->manifest, "expected a complete step, got {}", step);
    return *found->manifest;
}

// Replaces a step by a copy without optimizer state. The step and the copy exchange their names in
// one operation.
void drop_optimizer_state(const std::string& path, const std::function<void(i64, i64)>& progress) {
    const CopyPlan plan = plan_copy(Checkpoint::open(path), true);
    CopyOptions options{.replace = true};
    if (progress) options.progress = [&](i64 done) { progress(done, plan.n_bytes()); };
    copy(plan, path, options);
}

void plan_optimizer_state(const Lineage& lineage, i64 full_steps, const std::vector<i64>& protect,
                          PrunePlan& plan) {
    const auto n = static_cast<i64>(plan.kept.size());
    for (i64 at = 0; at < n - std::max<i64>(1, full_steps); ++at) {
        const i64 step = plan.kept[static_cast<size_t>(at)];
        const i64 bytes = optimizer_bytes(manifest_of(lineage, step));
        if (bytes == 0 || contains(protect, step)) continue;
        plan.actions.push_back({PruneKind::optimizer_state, step_name(step), bytes});
    }
}

void plan_abandoned(const std::string& directory, const Lineage& lineage, PrunePlan& plan) {
    for (const StepEntry& entry : lineage.steps) {
        if (!entry.manifest || lineage.current(entry)) continue;
        plan.actions.push_back(
            {PruneKind::abandoned, step_name(entry.step), tree_bytes(entry.path)});
    }
    for (const std::string& name : abandoned_in(directory)) {
        plan.actions.push_back({PruneKind::abandoned, name, tree_bytes(directory + "/" + name)});
    }
}

}  // namespace

std::vector<i64> steps_to_remove(std::vector<i64> complete_steps, const KeepPolicy& policy,
                                 std::optional<i64> latest) {
    std::ranges::sort(complete_steps);
    const auto n = static_cast<i64>(complete_steps.size());
    std::vector<i64> removed;
    for (i64 i = 0; i < n; ++i) {
        const i64 step = complete_steps[static_cast<size_t>(i)];
        const bool newest = i >= n - std::max<i64>(1, policy.last);
        if (!newest && step != latest && !is_kept(policy, step)) removed.push_back(step);
    }
    return removed;
}

std::string problem_of_latest(const std::string& directory, const Lineage& lineage) {
    if (!lineage.latest) return "";
    const StepEntry* const named = find_step(lineage.steps, *lineage.latest);
    if (named && named->manifest) return "";
    return fmt::format(
        "{}/{}: names {}, {}: restore this step, or choose another one with lm-ckpt latest",
        directory, latest_file, step_name(*lineage.latest),
        named ? "which is incomplete" : "which does not exist");
}

PrunePlan plan_prune(const std::string& directory, const Lineage& lineage,
                     const std::vector<i64>& complete, const PruneRules& rules,
                     const std::vector<i64>& protect) {
    if (!lineage.unknown.empty()) throw Error(Exit::failure, lineage.unknown);
    PrunePlan plan;
    std::vector<i64> removed;
    if (!rules.keep.empty()) removed = steps_to_remove(complete, rules.keep, lineage.latest);
    std::erase_if(removed, [&](i64 step) { return contains(protect, step); });
    std::ranges::set_difference(complete, removed, std::back_inserter(plan.kept));
    if (!plan.kept.empty()) plan.newest = plan.kept.back();
    for (const i64 step : removed) {
        const std::string name = step_name(step);
        plan.actions.push_back({PruneKind::step, name, tree_bytes(directory + "/" + name)});
    }
    if (rules.full_steps) plan_optimizer_state(lineage, *rules.full_steps, protect, plan);
    if (rules.abandoned) plan_abandoned(directory, lineage, plan);
    if (rules.leftovers_s) {
        for (const Leftover& leftover : leftovers_in(directory)) {
            if (leftover.in_use || leftover.age_s < *rules.leftovers_s) continue;
            plan.actions.push_back({PruneKind::leftover, leftover.name, leftover.bytes});
        }
    }
    return plan;
}

void prune(const std::string& directory, const PrunePlan& plan,
           const std::function<void(const PruneAction&)>& done,
           const std::function<void(i64 done, i64 total)>& rewriting) {
    for (const PruneAction& action : plan.actions) {
        const std::string path = directory + "/" + action.name;
        if (action.kind == PruneKind::leftover) {
            io::remove_tree(path);
        } else {
            const StepLock lock = StepLock::to_remove(path);
            action.kind == PruneKind::optimizer_state ? drop_optimizer_state(path, rewriting)
                                                      : remove_whole(directory, action.name);
        }
        if (done) done(action);
    }
}

void remove_whole(const std::string& directory, const std::string& name) {
    const std::string path = directory + "/" + name;
    const std::string aside = path + std::string(removal_mark);
    io::remove_tree(aside);
    io::checked::rename(path, aside);
    io::checked::fsync_parent_of(path);
    io::remove_tree(aside);
}

void finish_removals(const std::string& directory) {
    for (const std::string& name : io::list_directory(directory)) {
        if (is_leftover(name) && name.ends_with(removal_mark))
            io::remove_tree(directory + "/" + name);
    }
}

}  // namespace lm::ckpt
