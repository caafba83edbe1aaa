// SPDX-License-Identifier: Apache-2.0
// Splits a command line into occurrences of options and operands, with CLI11.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/options.hpp"

namespace lm::cli {

// Called for each occurrence of an option, in order, with its values. An exception ends the
// parsing.
using OnOption = std::function<void(const Option&, const std::vector<std::string>& values)>;

// Returns the operands (positional arguments) in order. Throws Error(usage) for an unknown option,
// a missing value or a value given to a flag.
std::vector<std::string> parse_arguments(const std::vector<Option>& table,
                                         const std::vector<std::string>& arguments,
                                         const OnOption& on_option);

// Returns the known name that is most similar to `name`, or "" when none is similar.
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);

}  // namespace lm::cli
