// SPDX-License-Identifier: Apache-2.0
// An Error with several problems of one command line. A program prints each problem on a line of
// its own. In the message of the Error, an ASCII record separator separates the problems.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace lm {

// Throws an Error with these problems; does nothing when there are none.
void throw_problems(const std::vector<std::string>& problems, Exit code = Exit::usage);
// Returns the message of an Error with these problems.
std::string text_of_problems(const std::vector<std::string>& problems);
// Returns the problems in the message of an Error. Only an Error of throw_problems() has more than
// one problem.
std::vector<std::string_view> problems_in(std::string_view message);
// Returns the message of an Error as one line: the first problem and the number of further
// problems.
std::string summary_of(std::string_view message);

}  // namespace lm
