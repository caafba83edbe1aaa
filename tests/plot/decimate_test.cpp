// SPDX-License-Identifier: Apache-2.0
#include "plot/decimate.hpp"

#include <algorithm>
#include <cmath>

#include "support/catch.hpp"

using namespace lm::plot;

namespace {

// Returns `n` points over 100 columns, with a spike at point `spike`.
std::vector<Point> wave(size_t n, size_t spike) {
    std::vector<Point> points;
    for (size_t i = 0; i < n; ++i) {
        const double x = 100.0 * static_cast<double>(i) / static_cast<double>(n);
        points.push_back({x, i == spike ? 50 : std::sin(x)});
    }
    return points;
}

}  // namespace

TEST_CASE("a million points become four for each column, with all extremes") {
    const std::vector<Point> points = wave(1'000'000, 123'456);
    const std::vector<Point> kept = decimated(points, 1);
    CHECK(kept.size() <= 400);
    CHECK(kept.front().x == points.front().x);
    CHECK(kept.back().x == points.back().x);
    CHECK(std::ranges::is_sorted(kept, {}, &Point::x));
    CHECK(std::ranges::max(kept, {}, &Point::y).y == 50);
    CHECK(column_means(points, 1).size() == 100);
}

TEST_CASE("few points are all kept") {
    const std::vector<Point> points = wave(50, 7);
    CHECK(decimated(points, 1).size() == 50);
    CHECK(decimated(std::vector<Point>{}, 1).empty());
    CHECK(decimated(std::vector<Point>{{3, 4}}, 1).size() == 1);
    CHECK(column_means(std::vector<Point>{{3, 4}, {3.5, 8}}, 1).front().y == 6);
    // One point after a column of four joins that column. Two points do not.
    const std::vector<Point> last = {{0, 1}, {0.2, 1}, {0.4, 1}, {0.6, 1}, {1, 6}};
    CHECK(column_means(last, 1).size() == 1);
    CHECK(column_means(last, 1).front().y == 2);
    // Two columns of one point each do not join the column before them, either.
    std::vector<Point> sparse = wave(1000, 0);
    sparse.push_back({100.5, 3});
    sparse.push_back({101.5, 5});
    CHECK(column_means(sparse, 1).size() == 102);
    CHECK(column_means(sparse, 1).back().y == 5);
    CHECK(
        column_means(std::vector<Point>{{0, 1}, {0.2, 1}, {0.4, 1}, {0.6, 1}, {1, 6}, {1.2, 6}}, 1)
            .size() == 2);
}

TEST_CASE("a curve ends before a value that is not finite") {
    const std::vector<Point> points = {{0, NAN}, {1, 1}, {2, 2}, {3, INFINITY}, {4, 4}, {5, NAN}};
    const auto parts = finite_parts(points);
    REQUIRE(parts.size() == 2);
    CHECK(parts[0].size() == 2);
    CHECK(parts[1].front().x == 4);
    CHECK(finite_parts(std::vector<Point>{}).empty());
}
