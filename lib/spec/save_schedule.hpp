// SPDX-License-Identifier: Apache-2.0
// --save-schedule: the iterations at which a training saves checkpoints.
#pragma once

#include <string>
#include <vector>

#include "base/types.hpp"

namespace lm::spec {

// Iterations at which lm-train saves: each range saves at the multiples of its interval and at its
// end; the last range has no end.
struct SaveRange {
    i64 interval = 0;
    i64 until = 0;  // 0: no end
};
// Parses "10@100,18@1000,1500". Throws Error(usage) naming --save-schedule.
std::vector<SaveRange> parse_save_schedule(const std::string& text);
// Checkpoints of a training of n_iterations, the one at its end among them.
i64 count_saves(const std::vector<SaveRange>& ranges, i64 n_iterations);

}  // namespace lm::spec
