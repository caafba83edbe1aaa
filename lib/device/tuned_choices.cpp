// SPDX-License-Identifier: Apache-2.0
#include "device/tuned_choices.hpp"

#include <algorithm>

namespace lm::device {

size_t fastest_algorithm(std::vector<std::vector<float>> times, float least_gain) {
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
