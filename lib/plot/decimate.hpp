// SPDX-License-Identifier: Apache-2.0
// Reduces a curve to the points that a picture can show, by M4 (Jugel et al., VLDB 7(10), 2014,
// section 4.2): the first, least, greatest and last point of each column. Lines through them cover
// the same pixels as lines through all points.
#pragma once

#include <span>
#include <vector>

#include "plot/svg.hpp"

namespace lm::plot {

// Returns at most four of the `points` for each column of `width`, in their order. `points` are
// positions on the page, finite, with ascending x.
std::vector<Point> decimated(std::span<const Point> points, double width);

// Returns the mean of the points of each column of `width` that has points. If the last column has
// less than half as many points as the previous column, both columns are joined, because a mean of
// few points is noise.
std::vector<Point> column_means(std::span<const Point> points, double width);

// Splits `points` at each y that is not finite, and drops these points. Keeps the order.
std::vector<std::span<const Point>> finite_parts(std::span<const Point> points);

}  // namespace lm::plot
