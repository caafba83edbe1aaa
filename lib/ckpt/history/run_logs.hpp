// SPDX-License-Identifier: Apache-2.0
// Finds the logs of a training in its checkpoint directory, and cuts them at a rollback.
#pragma once

#include <string>
#include <vector>

#include "base/types.hpp"
#include "ckpt/format/manifest.hpp"

namespace lm::ckpt {

// A log or TensorBoard file of a training. `name` is the name of its copies: the path relative to
// the directory in which the file was found.
struct RunLog {
    std::string path;
    std::string name;
};

// The point of a training at which its logs are cut, on the axes of TensorBoard files.
struct LogCut {
    i64 iteration = 0, samples = 0, tokens = 0, gigaflos = 0;
};
// Returns the point of the training at which `step` was saved.
LogCut cut_after(const Manifest& step);

// Returns the logs (.log, .out, .err, .jsonl, `log`, log.json) and TensorBoard files below
// `directory`, except links and files in steps and in abandoned branches.
std::vector<RunLog> logs_below(const std::string& directory);

// Throws Error(usage) when one of the shell patterns of --logs matches nothing.
void check_patterns(const std::vector<std::string>& patterns);
// Returns the files that match one of the shell patterns of --logs; a directory stands for the logs
// below it. A link of this user stands for its target; one of another user is skipped with a
// warning. Logs of the same name in different directories get their absolute paths as names.
// Throws Error(usage) when a pattern matches nothing.
std::vector<RunLog> logs_matching(const std::vector<std::string>& patterns);

// Removes the entries after `cut` from a log. In a text log, these are the lines of later
// iterations, and the lines that follow them and name no iteration. In a TensorBoard file, these
// are the values at later positions of the x axis, whose unit depends on the directory
// (metrics/tensorboard.hpp). If there are such entries, first copies the whole file to ASIDE/NAME.
// Returns whether an entry was removed.
bool cut_log(const RunLog& log, const LogCut& cut, const std::string& aside);

}  // namespace lm::ckpt
