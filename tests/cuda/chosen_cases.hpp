// SPDX-License-Identifier: Apache-2.0
// The part of the operation cases that a run of the tests chooses by its environment.
#pragma once

#include <string>
#include <vector>

#include "device/op_case.hpp"

namespace lm::test {

// Returns the case's operation: "linear_forward" for "linear_forward n=3 ...".
std::string operation_of(const OpCase& c);

// Returns the cases whose names contain `part`, and of these, of each operation, the first and in
// all about one of `every`, in the order of op_cases(). `every`: 1 or more.
std::vector<const OpCase*> chosen_cases(const std::string& part, int every);

// Returns the cases by the environment: `part` is LM_TEST_CASES, which may be unset, and `every` is
// LM_TEST_EVERY, 1 if unset.
std::vector<const OpCase*> chosen_cases();

}  // namespace lm::test
