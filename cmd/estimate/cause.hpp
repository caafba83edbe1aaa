// SPDX-License-Identifier: Apache-2.0
// lm-estimate eta --why: the reason why the last job ended, from its logs.
#pragma once

#include <string>
#include <vector>

#include "figures.hpp"

namespace lm::estimate {

// Prints the line of the logs that states why the job ended. Returns the exit code: 0 when the logs
// have such a line, else 1.
int print_cause(const std::vector<std::string>& logs, const OutputFlags& output);

}  // namespace lm::estimate
