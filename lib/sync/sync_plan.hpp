// SPDX-License-Identifier: Apache-2.0
// Decides which steps of a directory a sync copies to a destination.
#pragma once

#include <vector>

#include "ckpt/history/lineage.hpp"
#include "ckpt/verbs/prune.hpp"

namespace lm::sync {

// present: the destination has the step. copy: the destination does not have the step. replace: the
// destination has another step with this number, which is set aside before the copy.
enum class SyncAction { present, copy, replace };

struct PlannedStep {
    const ckpt::StepEntry* entry;  // the step of the source
    SyncAction action;
};

// Returns whether two manifests belong to the same step; one of them may be a copy without
// optimizer state.
bool is_same_step(const ckpt::Manifest& a, const ckpt::Manifest& b);

// Returns the steps of the source's current branch that `keep` keeps, ascending. A sync does not
// copy steps that `keep` does not keep, because the destination would remove them at once. `keep`
// is applied to the steps of this branch at the source and at the destination together, because the
// source may have removed older steps. The result points into `source`.
std::vector<PlannedStep> plan_sync(const ckpt::Lineage& source, const ckpt::Lineage& destination,
                                   const ckpt::KeepPolicy& keep);

}  // namespace lm::sync
