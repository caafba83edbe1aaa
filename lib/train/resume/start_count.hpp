// SPDX-License-Identifier: Apache-2.0
// Counts the starts in a row that have saved no new step, so that a job array stops after a few
// tasks that crash. The count is in the directory of --save.
#pragma once

#include <string>

#include "base/types.hpp"
#include "train/config/run_config.hpp"

namespace lm::train {

constexpr std::string_view start_count_file = "starts-without-step.json";
// If two starts in a row from one step have saved no new step, the third is refused.
constexpr i64 max_starts_without_step = 3;

// Returns the digest of the data, the model, the schedule and the directories of a run. Starts with
// equal digests are counted together. A job script may choose other time limits, numbers of threads
// and layouts of the ranks for each start, so the digest does not contain these.
std::string digest_for_count(const RunConfig& config);

// Counts a start from the step at `iteration`; 0: from no step. `configuration`: the result of
// digest_for_count(). A start from another step or with another digest begins a new count. Throws
// Error(self_stopped) when two starts in a row from this step have saved no newer step. Prints a
// warning when the count cannot be written.
void count_start(const std::string& directory, i64 iteration, const std::string& configuration);
// Removes the count at the regular end of a run. Does nothing when the file does not exist.
void end_start_count(const std::string& directory);

}  // namespace lm::train
