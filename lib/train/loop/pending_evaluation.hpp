// SPDX-License-Identifier: Apache-2.0
// The evaluation that a stop has ended or prevented. A file in the directory of --save names its
// iteration, and the run that resumes after this iteration makes the evaluation first. So the logs
// of a training in several jobs have the same lines as the log of one job.
#pragma once

#include <string>

#include "comm/group.hpp"

namespace lm::train {

constexpr std::string_view pending_evaluation_file = "pending-evaluation.json";

// Returns whether the evaluation after `iteration` is pending in `directory`, the same on all
// ranks. Removes the file. Collective.
bool consume_pending_evaluation(comm::Group& world, const std::string& directory, i64 iteration);
// Writes the file. An error is a warning.
void mark_pending_evaluation(const std::string& directory, i64 iteration);

}  // namespace lm::train
