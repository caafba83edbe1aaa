// SPDX-License-Identifier: Apache-2.0
#include "plot/line_figure.hpp"

#include <algorithm>
#include <cmath>

#include "plot/axis.hpp"
#include "plot/decimate.hpp"
#include "plot/legend.hpp"
#include "plot/style.hpp"

namespace lm::plot {
namespace {

constexpr double panel_height = 108;
constexpr double column_width = 0.5;  // points; narrower than a printed dot at 100 dots per inch
constexpr double line_width = 1;

// ---- Axes --------------------------------------------------------------------------------------

DataExtent x_extent_of(const LineFigure& figure) {
    DataExtent extent;
    for (const Panel& panel : figure.panels) {
        for (const Curve& curve : panel.curves) {
            for (const Point& point : curve.points) extent.add(point.x);
        }
    }
    for (const RunMarks& marks : figure.runs) {
        for (const double x : marks.restarts) extent.add(x);
    }
    if (!extent.empty() && extent.low() == extent.high()) {
        // If there is only one iteration, its neighbours are the ends of the axis.
        const double x = extent.low();
        extent.add(x - 1);
        extent.add(x + 1);
    }
    return extent;
}

DataExtent y_extent_of(const Panel& panel) {
    DataExtent extent;
    for (const Curve& curve : panel.curves) {
        for (const Point& point : curve.points) extent.add(point.y);
    }
    return extent;
}

Axis y_axis_of(const Panel& panel, const Rectangle& area) {
    constexpr double wide = 100;
    constexpr int intervals = 5;
    DataExtent extent = y_extent_of(panel);
    if (panel.may_be_log && extent.low() > 0 && extent.high() >= wide * extent.low()) {
        return Axis::logarithmic(extent, area.bottom(), area.y, intervals);
    }
    if (panel.from_zero && !extent.empty()) extent.add(0);
    return Axis::linear(extent, area.bottom(), area.y, intervals);
}

// One panel on the page.
struct Frame {
    Rectangle area;
    Axis x, y;
    Point at(const Point& data) const { return {x.at(data.x), y.at(data.y)}; }
};

Frame frame_of(const Panel& panel, const DataExtent& x, const Rectangle& area) {
    const int intervals = x.high() - x.low() == 2 ? 2 : 5;
    // The curve keeps a distance from both ends of the x axis.
    constexpr double margin = 4;
    return {area, Axis::tight(x, area.x + margin, area.right() - margin, intervals),
            y_axis_of(panel, area)};
}

void draw_frame(Svg& svg, const Panel& panel, const Frame& frame) {
    const Rectangle& area = frame.area;
    for (const Tick& tick : frame.y.ticks()) {
        const double y = frame.y.at(tick.value);
        svg.line("grid", {area.x, y}, {area.right(), y}, {grid_color, 0.6});
        svg.text("tick", {area.x - 4, y + 2.6}, tick.label, {small_size, Anchor::end});
    }
    for (const Tick& tick : frame.x.ticks()) {
        const double x = frame.x.at(tick.value);
        svg.line("axis", {x, area.bottom()}, {x, area.bottom() + 2.5}, {frame_color, 0.6});
        svg.text("tick", {x, area.bottom() + 10}, tick.label, {small_size, Anchor::middle});
    }
    svg.line("axis", {area.x, area.bottom()}, {area.right(), area.bottom()}, {frame_color, 0.8});
    svg.text("title", {area.x, area.y - 7}, panel.title + power_of_ten(frame.y.exponent()),
             {title_size, Anchor::start, ink, 0, true});
}

// ---- Curves ------------------------------------------------------------------------------------

// Splits `points` (positions on the page) where x decreases.
std::vector<std::span<const Point>> rising_parts(std::span<const Point> points) {
    std::vector<std::span<const Point>> parts;
    for (size_t first = 0; first < points.size();) {
        size_t end = first + 1;
        while (end < points.size() && points[end].x >= points[end - 1].x) ++end;
        parts.push_back(points.subspan(first, end - first));
        first = end;
    }
    return parts;
}

void draw_part(Svg& svg, std::span<const Point> points, std::string_view color, bool discarded) {
    if (points.size() == 1) {
        svg.dot("curve", points[0], discarded ? 0.8 : 1.5, color);
        return;
    }
    if (discarded) {
        svg.polyline("discarded", decimated(points, column_width),
                     {color, 0.7 * line_width, {}, 0.45});
        return;
    }
    // With many points per column, the polyline of a curve fills a solid band. This band is drawn
    // faintly, and the means of the columns are drawn over it.
    constexpr double dense = 3, mean_width = 1.5;
    const double columns = (points.back().x - points.front().x) / column_width + 1;
    if (static_cast<double>(points.size()) < dense * columns) {
        svg.polyline("curve", decimated(points, column_width), {color, line_width});
        return;
    }
    svg.polyline("band", decimated(points, column_width), {color, 0.5, {}, 0.3});
    svg.polyline("curve", column_means(points, mean_width), {color, line_width});
}

void draw_curve(Svg& svg, const Curve& curve, const Frame& frame) {
    std::vector<Point> points;
    points.reserve(curve.points.size());
    for (const Point& point : curve.points) points.push_back(frame.at(point));
    for (const std::span<const Point> finite : finite_parts(points)) {
        for (const std::span<const Point> part : rising_parts(finite)) {
            draw_part(svg, part, color_of(curve.run), curve.discarded);
        }
    }
}

// ---- Marks -------------------------------------------------------------------------------------

// Returns the positions of `values`, ascending. Drops a position that is closer than `distance` to
// the previous kept position.
std::vector<double> spaced(const std::vector<double>& values, const Axis& axis, double distance) {
    std::vector<double> all;
    for (const double value : values) all.push_back(axis.at(value));
    std::ranges::sort(all);
    std::vector<double> kept;
    for (const double x : all) {
        if (kept.empty() || x >= kept.back() + distance) kept.push_back(x);
    }
    return kept;
}

void draw_marks(Svg& svg, const LineFigure& figure, const Frame& frame) {
    const double bottom = frame.area.bottom();
    for (size_t run = 0; run < figure.runs.size(); ++run) {
        const bool one_run = figure.runs.size() == 1;
        const std::string_view color = one_run ? faint : color_of(run);
        for (const double x : spaced(figure.runs[run].restarts, frame.x, 3)) {
            svg.line("restart", {x, frame.area.y}, {x, bottom}, {color, 0.6, "2.5 2", 0.8});
        }
        for (const double x : spaced(figure.runs[run].skipped, frame.x, 1)) {
            svg.line("skipped", {x, bottom - 5}, {x, bottom}, {one_run ? alarm : color, 0.9});
        }
    }
}

// ---- Legend ------------------------------------------------------------------------------------

std::vector<LegendEntry> legend_of(const LineFigure& figure) {
    constexpr double longest_name = 150;
    std::vector<LegendEntry> entries;
    bool restarts = false, skipped = false;
    for (size_t run = 0; run < figure.runs.size(); ++run) {
        const RunMarks& marks = figure.runs[run];
        restarts |= !marks.restarts.empty();
        skipped |= !marks.skipped.empty();
        if (figure.runs.size() > 1) {
            entries.push_back(
                {Symbol::line, elided(marks.name, label_size, longest_name), color_of(run)});
        }
    }
    const bool one_run = figure.runs.size() == 1;
    if (restarts) entries.push_back({Symbol::mark, "restart", faint});
    if (skipped) {
        entries.push_back({Symbol::tick, "skipped or NaN iterations", one_run ? alarm : faint});
    }
    return entries;
}

}  // namespace

std::string svg_of(const LineFigure& figure) {
    constexpr double left = 36, between = 42, right = 8, title_space = 20, below = 26;
    const std::vector<LegendEntry> legend = legend_of(figure);
    const double top = place_legend(legend, left, nullptr);
    const size_t rows = (figure.panels.size() + 1) / 2;
    const double row_height = title_space + panel_height + below;
    const double width = (page_width - left - between - right) / 2;
    Svg svg(page_width, top + row_height * static_cast<double>(rows), figure.title);
    place_legend(legend, left, &svg);
    const DataExtent x = x_extent_of(figure);
    for (size_t i = 0; i < figure.panels.size(); ++i) {
        const Panel& panel = figure.panels[i];
        const Rectangle area = {left + static_cast<double>(i % 2) * (width + between),
                                top + title_space + static_cast<double>(i / 2) * row_height, width,
                                panel_height};
        const Frame frame = frame_of(panel, x, area);
        draw_frame(svg, panel, frame);
        draw_marks(svg, figure, frame);
        for (const bool discarded : {true, false}) {
            for (const Curve& curve : panel.curves) {
                if (curve.discarded == discarded) draw_curve(svg, curve, frame);
            }
        }
        if (y_extent_of(panel).empty()) {
            svg.text("no-data", {area.x + width / 2, area.y + area.height / 2}, "not in the log",
                     {label_size, Anchor::middle, faint});
        }
        svg.text("label", {area.x + width / 2, area.bottom() + 21}, figure.x_label,
                 {label_size, Anchor::middle});
    }
    return svg.finish();
}

}  // namespace lm::plot
