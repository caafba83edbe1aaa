// SPDX-License-Identifier: Apache-2.0
// Compares the results of an operation case with the expected results.
#pragma once

#include <algorithm>
#include <cmath>

#include "op_case.hpp"
#include "support/catch.hpp"

namespace lm::test {

inline double largest(const std::vector<double>& values) {
    double most = 0;
    for (const double value : values) most = std::max(most, std::abs(value));
    return most;
}

// Checks that the largest error of each expected tensor, relative to its largest magnitude, is at
// most bound(tensor).
inline void compare(const std::string& name, const Values& got, const Values& expected,
                    const std::function<double(const std::string&)>& bound) {
    for (const auto& [tensor, values] : expected) {
        INFO(name << ": " << tensor);
        REQUIRE(got.count(tensor) == 1);
        const std::vector<double>& result = got.at(tensor);
        REQUIRE(result.size() == values.size());
        double error = 0;
        for (size_t i = 0; i < values.size(); ++i) {
            error = std::max(error, std::abs(result[i] - values[i]));
        }
        CHECK(error <= bound(tensor) * std::max(largest(values), 1e-6));
    }
}

}  // namespace lm::test
