// SPDX-License-Identifier: Apache-2.0
// The behaviour that every backend of comm::Group must have, as functions that each rank runs. They
// run on the backends self and threads, and in a program under mpirun or srun. A body throws
// std::runtime_error for a wrong result.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/group.hpp"

namespace lm::test {

struct ConformanceCase {
    std::string name;
    std::function<void(comm::Group& world)> body;
};

// Bodies that must succeed on any number of ranks.
const std::vector<ConformanceCase>& conformance_cases();

// Bodies that must fail: the run ends with an error that contains all of `words`.
struct FailureCase {
    std::string name;
    int min_ranks;
    std::function<void(comm::Group& world)> body;
    std::vector<std::string> words;
    bool needs_checking;  // some backends find this error only with check_operations
};
const std::vector<FailureCase>& failure_cases();

}  // namespace lm::test
