// SPDX-License-Identifier: Apache-2.0
// Splits a command line into occurrences of options and operands, with CLI11.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/options.hpp"

namespace lm::cli {

// A function that is called for each occurrence of an option, in order, with its values. If the
// function throws an Error(usage), parsing adds the Error to `problems` and continues. Any other
// exception ends the parsing.
using OnOption = std::function<void(const Option&, const std::vector<std::string>& values)>;

// Adds to `problems` the Errors of `on_option`, unknown options, missing values, and values given
// to flags. Returns the operands (positional arguments) in order; nullopt when an unknown option or
// a missing value makes it uncertain which arguments are operands.
std::optional<std::vector<std::string>> parse_arguments(const std::vector<Option>& table,
                                                        const std::vector<std::string>& arguments,
                                                        const OnOption& on_option,
                                                        std::vector<std::string>& problems);

// Returns whether two texts are equal, or state equal numbers.
bool same_value(const std::string& a, const std::string& b);

}  // namespace lm::cli
