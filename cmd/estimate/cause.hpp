// SPDX-License-Identifier: Apache-2.0
// lm-estimate eta --why: the reason why the last job ended, from its logs.
#pragma once

#include <string>
#include <vector>

#include "figures.hpp"

namespace lm::estimate {

// Prints the line of the logs that states why the job ended. Returns the exit code: 0 when a line
// states an end, 1 when none does.
int print_cause(const std::vector<std::string>& logs, const OutputFlags& output);

}  // namespace lm::estimate
