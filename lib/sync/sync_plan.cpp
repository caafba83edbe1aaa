// SPDX-License-Identifier: Apache-2.0
#include "sync/sync_plan.hpp"

#include <algorithm>

namespace lm::sync {
namespace {

// Returns the steps that are on the source's current branch and that the source or the destination
// has, ascending.
std::vector<i64> steps_of_branch(const ckpt::Lineage& source, const ckpt::Lineage& destination) {
    std::vector<i64> all;
    for (const ckpt::StepEntry& entry : source.steps) {
        if (source.current(entry)) all.push_back(entry.step);
    }
    for (const ckpt::StepEntry& entry : destination.steps) {
        if (entry.manifest && source.tip && on_branch(*entry.manifest, *source.tip)) {
            all.push_back(entry.step);
        }
    }
    std::ranges::sort(all);
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
}

SyncAction action_for(const ckpt::StepEntry& entry, const ckpt::StepEntry* there) {
    if (!there) return SyncAction::copy;
    const bool present = there->manifest && is_same_step(*entry.manifest, *there->manifest);
    return present ? SyncAction::present : SyncAction::replace;
}

}  // namespace

bool is_same_step(const ckpt::Manifest& a, const ckpt::Manifest& b) {
    return a.counters.iteration == b.counters.iteration && a.generation == b.generation &&
           a.run_id == b.run_id && a.created == b.created;
}

std::vector<PlannedStep> plan_sync(const ckpt::Lineage& source, const ckpt::Lineage& destination,
                                   const ckpt::KeepPolicy& keep) {
    const std::vector<i64> all = steps_of_branch(source, destination);
    std::vector<i64> removed;
    if (!keep.empty()) removed = ckpt::steps_to_remove(all, keep, source.latest);
    std::vector<PlannedStep> plan;
    for (const i64 step : all) {
        const ckpt::StepEntry* entry = find_step(source.steps, step);
        if (!entry || !source.current(*entry)) continue;
        if (std::ranges::find(removed, step) != removed.end()) continue;
        plan.push_back({entry, action_for(*entry, find_step(destination.steps, step))});
    }
    return plan;
}

}  // namespace lm::sync
