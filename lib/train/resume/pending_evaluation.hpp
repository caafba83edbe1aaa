// SPDX-License-Identifier: Apache-2.0
// The evaluation that a stop or a failure has interrupted or prevented. When an evaluation begins,
// or when a run stops before a due evaluation, rank 0 writes the iteration of the evaluation to a
// file in the directory of --save. A run that resumes from this iteration first runs the
// evaluation. So the logs of a training in several jobs together have the lines that the log of one
// job would have.
#pragma once

#include <string>

#include "comm/group.hpp"

namespace lm::train {

constexpr std::string_view pending_evaluation_file = "pending-evaluation.json";

// Returns whether the evaluation after `iteration` is pending in `directory`. The result is the
// same on all ranks. Collective.
bool evaluation_is_pending(comm::Group& world, const std::string& directory, i64 iteration);
// Writes the file. If that fails, prints a warning.
void mark_pending_evaluation(const std::string& directory, i64 iteration);
// Removes the file.
void end_pending_evaluation(const std::string& directory);

}  // namespace lm::train
