// SPDX-License-Identifier: Apache-2.0
// Parses a line of --log-json.
#pragma once

#include <string_view>

#include "metrics/log_line.hpp"

namespace lm::metrics {

// A larger count is not valid, because it consists of two counts that were printed without a space
// between them.
constexpr i64 largest_count = 1'000'000'000'000'000;

// Parses `line` into the kind and the fields of `out`.
void read_json_line(std::string_view line, LogLine& out);

}  // namespace lm::metrics
