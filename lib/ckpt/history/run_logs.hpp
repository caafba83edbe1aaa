// SPDX-License-Identifier: Apache-2.0
// Finds the logs of a training in its checkpoint directory, and cuts them at a rollback.
#pragma once

#include <string>
#include <vector>

#include "base/types.hpp"
#include "ckpt/format/manifest.hpp"

namespace lm::ckpt {

// A log or TensorBoard file of a training, and the name that its copies get: relative to the
// directory in which it was found.
struct RunLog {
    std::string path;
    std::string name;
};

// The point of a training at which its logs are cut, on the axes of TensorBoard files.
struct LogCut {
    i64 iteration = 0, samples = 0, tokens = 0, gigaflos = 0;
};
// Returns the point after the step of the manifest.
LogCut cut_after(const Manifest& step);

// Returns the logs (.log, .out, .err, .jsonl, `log`, log.json) and TensorBoard files below
// `directory`, without those in steps and in abandoned branches.
std::vector<RunLog> logs_below(const std::string& directory);

// Returns the files that match one of the shell patterns of --logs; a directory stands for its
// logs. Logs of the same name in different directories get their absolute paths as names. Throws
// Error(usage) when a pattern matches nothing.
std::vector<RunLog> logs_matching(const std::vector<std::string>& patterns);

// Removes the entries after `cut` from a log. In a text log: the lines of later iterations, and the
// lines after them that name no iteration. In a TensorBoard file: the values at later positions of
// the axis that its directory has (metrics/tensorboard.hpp). First copies the whole file to
// ASIDE/NAME. Returns whether anything was removed.
bool cut_log(const RunLog& log, const LogCut& cut, const std::string& aside);

}  // namespace lm::ckpt
