// SPDX-License-Identifier: Apache-2.0
// The iterations that a run skips: --skip-train-iteration-range and --iterations-to-skip.
#pragma once

#include <string>
#include <vector>

#include "base/types.hpp"

namespace lm::config {

// The iterations `first` to `last`, both included. If a run skips them, `rate_advances` states
// whether the learning rate advances.
struct IterationRange {
    i64 first = 0;
    i64 last = 0;
    bool rate_advances = true;
    bool contains(i64 iteration) const { return iteration >= first && iteration <= last; }
};

// Parses `texts`, the ranges A-B of --skip-train-iteration-range. Adds `iterations`, the iterations
// of --iterations-to-skip, at which the learning rate does not advance. Returns the ranges sorted;
// adjacent ranges with equal `rate_advances` are one range. Throws Error(usage).
std::vector<IterationRange> parse_skip_ranges(const std::vector<std::string>& texts,
                                              const std::vector<i64>& iterations = {});

}  // namespace lm::config
