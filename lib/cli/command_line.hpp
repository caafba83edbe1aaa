// SPDX-License-Identifier: Apache-2.0
// Applies one command line to an option table: stores the values of each option in the option's
// target and distributes the operands.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/options.hpp"

namespace lm::cli {

using Values = std::vector<std::string>;
// Stores the values of one occurrence of an option in the option's target. Throws Error(usage)
// naming `name`.
using Apply = std::function<void(const std::string& name, const Values& values)>;

// The options and operands of a command line.
struct CommandLine {
    GivenNames given;  // operands, too
    std::vector<Options::Occurrence> occurrences;
};

// Returns whether `name` is an option that every program has: --help, -h, --help-all, --version.
bool is_built_in(const std::string& name);

// Parses `arguments` with the options of `table` and the built-in options; apply[i] belongs to
// table[i]. Calls `check_operands` before the operands are distributed. Adds the texts of usage
// errors to `problems`; the result then has the values of the options without a problem.
Options::Parsed apply_command_line(
    const std::vector<Option>& table, const std::vector<Apply>& apply, const Values& arguments,
    const std::function<void(const Values& operands)>& check_operands, CommandLine& result,
    std::vector<std::string>& problems);

}  // namespace lm::cli
