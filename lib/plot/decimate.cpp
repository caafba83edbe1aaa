// SPDX-License-Identifier: Apache-2.0
#include "plot/decimate.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace lm::plot {
namespace {

// Returns the index after the last point in the column of point `first`.
size_t end_of_column(std::span<const Point> points, size_t first, double width) {
    const double column = std::floor(points[first].x / width);
    size_t end = first + 1;
    while (end < points.size() && std::floor(points[end].x / width) == column) ++end;
    return end;
}

}  // namespace

std::vector<Point> decimated(std::span<const Point> points, double width) {
    std::vector<Point> kept;
    for (size_t first = 0; first < points.size();) {
        const size_t end = end_of_column(points, first, width);
        size_t least = first, greatest = first;
        for (size_t i = first; i < end; ++i) {
            if (points[i].y < points[least].y) least = i;
            if (points[i].y > points[greatest].y) greatest = i;
        }
        std::array<size_t, 4> four = {first, least, greatest, end - 1};
        std::ranges::sort(four);
        for (size_t i = 0; i < four.size(); ++i) {
            if (i == 0 || four[i] != four[i - 1]) kept.push_back(points[four[i]]);
        }
        first = end;
    }
    return kept;
}

std::vector<Point> column_means(std::span<const Point> points, double width) {
    std::vector<Point> means;
    for (size_t first = 0; first < points.size();) {
        size_t end = end_of_column(points, first, width);
        const bool one_column_left =
            end < points.size() && end_of_column(points, end, width) == points.size();
        if (one_column_left && 2 * (points.size() - end) < end - first) end = points.size();
        Point sum;
        for (size_t i = first; i < end; ++i) {
            sum.x += points[i].x;
            sum.y += points[i].y;
        }
        const auto n = static_cast<double>(end - first);
        means.push_back({sum.x / n, sum.y / n});
        first = end;
    }
    return means;
}

std::vector<std::span<const Point>> finite_parts(std::span<const Point> points) {
    std::vector<std::span<const Point>> parts;
    for (size_t first = 0; first < points.size();) {
        size_t end = first;
        while (end < points.size() && std::isfinite(points[end].y)) ++end;
        if (end > first) parts.push_back(points.subspan(first, end - first));
        first = end + 1;
    }
    return parts;
}

}  // namespace lm::plot
