// SPDX-License-Identifier: Apache-2.0
#include "plot/sparkline.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <vector>

#include "plot/axis.hpp"

namespace lm::plot {

std::string sparkline(std::span<const Point> points, int columns) {
    DataExtent x;
    for (const Point& point : points) x.add(point.x);
    if (x.empty() || columns < 1) return "";
    struct Sum {
        double y = 0, n = 0;
    };
    const bool one_column = x.high() == x.low();
    std::vector<Sum> sums(one_column ? 1 : static_cast<size_t>(columns));
    for (const Point& point : points) {
        if (!std::isfinite(point.x) || !std::isfinite(point.y)) continue;
        const double share = one_column ? 0 : (point.x - x.low()) / (x.high() - x.low());
        const auto column = static_cast<size_t>(share * static_cast<double>(sums.size()));
        Sum& sum = sums[std::min(column, sums.size() - 1)];
        sum.y += point.y;
        sum.n += 1;
    }
    DataExtent y;
    for (const Sum& sum : sums) y.add(sum.n > 0 ? sum.y / sum.n : NAN);
    constexpr std::array<std::string_view, 8> heights = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    std::string text;
    for (const Sum& sum : sums) {
        if (sum.n == 0) {
            text += ' ';
            continue;
        }
        const double span = y.high() - y.low();
        const double share = span > 0 ? (sum.y / sum.n - y.low()) / span : 0.5;
        text += heights[std::min<size_t>(7, static_cast<size_t>(share * 8))];
    }
    return text;
}

}  // namespace lm::plot
