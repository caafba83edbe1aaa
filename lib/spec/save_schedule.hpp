// SPDX-License-Identifier: Apache-2.0
// The iterations at which a training run saves checkpoints: --save-interval and --save-schedule.
#pragma once

#include <string>
#include <vector>

#include "base/types.hpp"

namespace lm::spec {

// A range of iterations with one save interval. The run saves at the multiples of `interval` and at
// `until`. Each range starts where the previous range ends. The last range may have no end.
struct SaveRange {
    i64 interval = 0;
    i64 until = 0;  // 0: no end
};

// Parses "10@100,18@1000,1500": interval 10 up to iteration 100, then 18 up to 1000, then 1500
// without an end. Throws Error(usage) naming --save-schedule.
std::vector<SaveRange> parse_save_schedule(const std::string& text);

// Returns the number of checkpoints that a training run of n_iterations iterations saves, including
// the checkpoint at its end.
i64 count_saves(const std::vector<SaveRange>& ranges, i64 n_iterations);

// Returns the iterations after `start` at which a run of n_iterations iterations saves, ascending.
std::vector<i64> save_iterations(const std::vector<SaveRange>& ranges, i64 start, i64 n_iterations);

}  // namespace lm::spec
