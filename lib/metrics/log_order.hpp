// SPDX-License-Identifier: Apache-2.0
// Sorts the logs of a training.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "metrics/log_overlap.hpp"

namespace lm::metrics {

// The start of a log.
struct LogHead {
    std::string path;
    std::optional<double> time_s;         // its first time stamp (log_line.hpp), Unix seconds
    std::optional<FirstIteration> first;  // its first logged iteration
};

// Reads a log up to its first time stamp and its first iteration.
LogHead read_head(const std::string& path);

// Returns the logs in the order of their first time stamps; when a log has no time stamp, in the
// order of their first iterations, with a warning. Keeps the given order when a log is standard
// input ("-"), and, with a warning, when one log has no time stamp and one log has no iteration.
// Calls read_head() for each log, except for standard input and when there is only one log.
std::vector<LogHead> in_order(const std::vector<std::string>& logs);

}  // namespace lm::metrics
