// SPDX-License-Identifier: Apache-2.0
#include "plot/sparkline.hpp"

#include <cmath>
#include <vector>

#include "support/catch.hpp"

using namespace lm::plot;

TEST_CASE("a sparkline has a height for each column, and a space without data") {
    CHECK(sparkline(std::vector<Point>{}, 10).empty());
    CHECK(sparkline(std::vector<Point>{{3, 4}}, 10) == "▅");
    CHECK(sparkline(std::vector<Point>{{0, 0}, {1, 1}, {2, 2}, {3, 3}}, 4) == "▁▃▆█");
    CHECK(sparkline(std::vector<Point>{{0, 1}, {1, NAN}, {2, 1}}, 3) == "▅ ▅");
    CHECK(sparkline(std::vector<Point>{{0, NAN}, {1, NAN}}, 2) == "  ");
}
