// SPDX-License-Identifier: Apache-2.0
// The evaluation that a stop or a failure has ended or prevented. While an evaluation runs, and
// after a stop, a file in the directory of --save names its iteration, and the run that resumes
// from it makes the evaluation first. So the logs of a training in several jobs have the same lines
// as the log of one job.
#pragma once

#include <string>

#include "comm/group.hpp"

namespace lm::train {

constexpr std::string_view pending_evaluation_file = "pending-evaluation.json";

// Returns whether the evaluation after `iteration` is pending in `directory`, the same on all
// ranks. Collective.
bool evaluation_is_pending(comm::Group& world, const std::string& directory, i64 iteration);
// Writes the file. An error is a warning.
void mark_pending_evaluation(const std::string& directory, i64 iteration);
// Removes the file.
void end_pending_evaluation(const std::string& directory);

}  // namespace lm::train
