// SPDX-License-Identifier: Apache-2.0
// Algorithms that a device chose by measurement: for each operation and shape the fastest of
// several. Measurements vary, and algorithms may differ in the last bit of their results. So the
// first choice is stored and never changed: all ranks of a run, and its resumed runs, use the same
// algorithms.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace lm::device {

class TunedChoices {
  public:
    virtual ~TunedChoices() = default;
    // Returns the stored choice for `key`, or an empty text. `key` contains everything that the
    // choice depends on.
    virtual std::string find(const std::string& key) = 0;
    // Stores `choice` for `key` unless another process has already stored a choice. Returns the
    // stored choice.
    virtual std::string store(const std::string& key, const std::string& choice) = 0;
};

// Returns the index of the algorithm with the smallest median time, if this median is smaller than
// the median of algorithm 0, the default, by at least the fraction `least_gain`. Otherwise returns
// 0. times[i]: one or more measured times of algorithm i, in the same unit for all algorithms.
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
