// SPDX-License-Identifier: Apache-2.0
// Which steps of a checkpoint directory may go, and their removal.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/types.hpp"

namespace lm::ckpt {

// A step is kept when any rule keeps it.
struct KeepPolicy {
    i64 last = 0;            // the newest so many
    i64 every = 0;           // multiples of it; 0: no such rule
    std::vector<i64> steps;  // these
};

// The steps that no rule keeps, ascending. `latest` and the newest step are always kept.
std::vector<i64> steps_to_remove(std::vector<i64> complete_steps, const KeepPolicy& policy,
                                 std::optional<i64> latest);

// Takes the step out of sight in one rename, then removes it; also finishes removals that were
// interrupted.
void remove_step(const std::string& directory, i64 step);
void finish_removals(const std::string& directory);

}  // namespace lm::ckpt
