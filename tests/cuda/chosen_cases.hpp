// SPDX-License-Identifier: Apache-2.0
// Selects operation cases by the environment of the test run.
#pragma once

#include <string>
#include <vector>

#include "device/op_case.hpp"

namespace lm::test {

// Returns the case's operation: "linear_forward" for "linear_forward n=3 ...".
std::string operation_of(const OpCase& c);

// Returns about one in `every` (at least 1) of the cases whose names contain `part`, among them the
// first case of each operation, in the order of op_cases().
std::vector<const OpCase*> chosen_cases(const std::string& part, int every);

// Returns chosen_cases(part, every) with `part` from the variable LM_TEST_CASES (unset: all cases)
// and `every` from LM_TEST_EVERY (unset: 1).
std::vector<const OpCase*> chosen_cases();

}  // namespace lm::test
