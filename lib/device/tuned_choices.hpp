// SPDX-License-Identifier: Apache-2.0
// Algorithms that a device chose by measurement: the fastest of several for one operation and
// shape. Measurements vary from run to run, and algorithms may differ in the last bit of their
// results. So the first choice is stored, and every later lookup uses it: all ranks, and a run and
// its resume, use the same algorithms.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace lm::device {

class TunedChoices {
  public:
    virtual ~TunedChoices() = default;
    // Returns the choice for `key`, which contains all that the choice depends on; empty: no
    // choice.
    virtual std::string find(const std::string& key) = 0;
    // Stores `choice` for `key` unless another process has stored one first. Returns the stored
    // one.
    virtual std::string store(const std::string& key, const std::string& choice) = 0;
};

// Returns the index of the algorithm to use. times[i] are the measured times of algorithm i, at
// least one each, all in one unit; algorithm 0 is the default. The result is the algorithm with the
// smallest median, or 0 when its median is not smaller than the default's by the fraction
// `least_gain`.
inline size_t fastest_algorithm(std::vector<std::vector<float>> times, float least_gain) {
    std::vector<float> medians;
    for (std::vector<float>& of_one : times) {
        const auto middle = of_one.begin() + static_cast<std::ptrdiff_t>(of_one.size() / 2);
        std::ranges::nth_element(of_one, middle);
        medians.push_back(*middle);
    }
    const auto best = std::ranges::min_element(medians);
    if (*best > (1 - least_gain) * medians.front()) return 0;
    return static_cast<size_t>(best - medians.begin());
}

}  // namespace lm::device
