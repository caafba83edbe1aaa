// SPDX-License-Identifier: Apache-2.0
// Several problems of one command line, which one Error carries and which are printed one line
// each. The message of the Error has an ASCII record separator between two problems.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace lm {

// Throws an Error with these problems; does nothing when there are none.
void throw_problems(const std::vector<std::string>& problems, Exit code = Exit::usage);
// Returns the problems that an Error's message has: one, unless throw_problems() made it.
std::vector<std::string_view> problems_in(std::string_view message);
// Returns the message of an Error as one line: its first problem and the number of the others.
std::string summary_of(std::string_view message);

}  // namespace lm
