// SPDX-License-Identifier: Apache-2.0
// Wording of the option table, shared by help, man page and completion.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/options.hpp"

namespace lm::cli {

// Returns the options under their headings, in order of declaration, and -h/--help and --version at
// the end. Omits hidden, accepted and refused options.
std::vector<std::pair<std::string, std::vector<Option>>> groups_of(const Options& options);
std::vector<Option> operands_of(const Options& options);
std::vector<Option> accepted_of(const Options& options);

// Returns whether help and man page print "..." after the metavar: the option takes several values,
// and the metavar does not list them as "START INCREMENT SAMPLES" does.
bool has_dots(const Option& option);
std::string operand_text(const Option& operand);  // "DIR", "[STEP]", "CKPT..."
std::string capitalized(std::string text);        // does not change names such as fp16
std::vector<std::string> wrap(std::string_view text, size_t width);

}  // namespace lm::cli
