// SPDX-License-Identifier: Apache-2.0
#include "chosen_cases.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

namespace lm::test {
namespace {

// Returns whether case number k of an operation is chosen. About one case in `every` is chosen.
// Options (bias, dropout, accumulate) alternate in the list, so a choice of each second case would
// skip some options. The multiples of the golden ratio modulo 1 are spread evenly, and have no
// period.
bool is_chosen(int k, int every) {
    const double golden = (std::sqrt(5.0) - 1) / 2;
    return std::fmod(k * golden, 1.0) < 1.0 / every;
}

}  // namespace

std::string operation_of(const OpCase& c) {
    return c.name.substr(0, c.name.find(' '));
}

std::vector<const OpCase*> chosen_cases(const std::string& part, int every) {
    std::vector<const OpCase*> chosen;
    std::map<std::string, int> n_cases;  // numbers of cases of each operation
    for (const OpCase& c : op_cases()) {
        if (c.name.find(part) == std::string::npos) continue;
        if (is_chosen(n_cases[operation_of(c)]++, every)) chosen.push_back(&c);
    }
    return chosen;
}

std::vector<const OpCase*> chosen_cases() {
    const char* const part = std::getenv("LM_TEST_CASES");
    const char* const every = std::getenv("LM_TEST_EVERY");
    return chosen_cases(part != nullptr ? part : "",
                        every != nullptr ? std::max(1, std::atoi(every)) : 1);
}

}  // namespace lm::test
