// SPDX-License-Identifier: Apache-2.0
// Sorts the logs of a training by time.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lm::metrics {

// Returns the first time stamp of a log (log_line.hpp), in Unix seconds; nullopt when the log has
// no time stamp. Reads the log only up to this time stamp.
std::optional<double> first_time_s(const std::string& path);

// Returns the logs in the order of their first time stamps. Keeps the given order when a log is
// standard input ("-") or has no time stamp. Logs a warning that names the log without time stamp.
std::vector<std::string> in_time_order(const std::vector<std::string>& logs);

}  // namespace lm::metrics
