// SPDX-License-Identifier: Apache-2.0
// Puts the logs of a training in the order of time.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lm::metrics {

// Returns the first time stamp of a log (log_line.hpp), in Unix seconds; nullopt without one. Reads
// no line after it.
std::optional<double> first_time_s(const std::string& path);

// Returns the logs in the order of their first time stamps. Keeps the given order when a log is
// standard input ("-") or has no time stamp; a warning names a log without time stamp.
std::vector<std::string> in_time_order(const std::vector<std::string>& logs);

}  // namespace lm::metrics
