// SPDX-License-Identifier: Apache-2.0
// The parser behind cli::Options: cuts a command line into occurrences of options and operands.
// Only parse.cpp includes CLI11.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/options.hpp"

namespace lm::cli {

// Called for each occurrence, in order, with the values that stood behind the option. What it
// throws ends the parsing.
using OnOption = std::function<void(const Option&, const std::vector<std::string>& values)>;

// Returns the operands (positional arguments) in order. Throws Error(usage) for an unknown option,
// a missing value or a value given to a flag.
std::vector<std::string> parse_arguments(const std::vector<Option>& table,
                                         const std::vector<std::string>& arguments,
                                         const OnOption& on_option);

// The known name that `name` was probably meant to be, or "".
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);

}  // namespace lm::cli
