// SPDX-License-Identifier: Apache-2.0
// Chooses the steps of a checkpoint directory to remove, and removes them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/types.hpp"

namespace lm::ckpt {

// A step is kept when at least one rule keeps it.
struct KeepPolicy {
    i64 last = 0;            // keep the newest `last` steps
    i64 every = 0;           // keep the multiples of `every`; 0: no such rule
    std::vector<i64> steps;  // keep these steps
};

// Returns the steps that no rule keeps, ascending. `latest` and the newest step are always kept.
std::vector<i64> steps_to_remove(std::vector<i64> complete_steps, const KeepPolicy& policy,
                                 std::optional<i64> latest);

// Removes a step: renames it to STEP.tmp.removed, makes that durable, then removes the files. A
// crash in between leaves the step or STEP.tmp.removed, never a step with missing files.
void remove_step(const std::string& directory, i64 step);
// Removes the STEP.tmp.removed of interrupted removals.
void finish_removals(const std::string& directory);

}  // namespace lm::ckpt
