// SPDX-License-Identifier: Apache-2.0
// Finds the logs of a training in its checkpoint directory, and cuts them at a rollback.
#pragma once

#include <string>
#include <vector>

#include "base/types.hpp"

namespace lm::ckpt {

// A log or TensorBoard file of a training, and the name that its copies get: relative to the
// directory in which it was found.
struct RunLog {
    std::string path;
    std::string name;
};

// Returns the logs (.log, .out, .err, .jsonl) and TensorBoard files below `directory`, without
// those in steps and in abandoned branches.
std::vector<RunLog> logs_below(const std::string& directory);

// Returns the files that match one of the shell patterns of --logs; a directory stands for its
// logs. Throws Error(usage) when a pattern matches nothing.
std::vector<RunLog> logs_matching(const std::vector<std::string>& patterns);

// Removes the entries after iteration `step` from a log. In a text log: the lines of later
// iterations, and the lines after them that name no iteration. In a TensorBoard file: the values of
// later steps. First copies the whole file to ASIDE/NAME. Returns whether anything was removed.
bool cut_log(const RunLog& log, i64 step, const std::string& aside);

}  // namespace lm::ckpt
