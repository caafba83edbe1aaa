// SPDX-License-Identifier: Apache-2.0
#include "plot/scatter_chart.hpp"

#include <algorithm>
#include <cmath>

#include "plot/axis.hpp"
#include "plot/style.hpp"
#include "plot/svg.hpp"

namespace lm::plot {
namespace {

constexpr double height = 300, left = 48, right = 12, below = 34;

// The positions of a chart on its page.
struct ScatterLayout {
    std::vector<LegendEntry> legend;
    double note_y = 0;  // base line of the note
    Rectangle area;     // where the dots are
    Axis x, y;
};

bool overlap(const Rectangle& a, const Rectangle& b) {
    return a.x < b.right() && b.x < a.right() && a.y < b.bottom() && b.y < a.bottom();
}

std::vector<LegendEntry> legend_of(const ScatterChart& chart) {
    std::vector<LegendEntry> legend;
    for (size_t kind = 0; kind < chart.kinds.size(); ++kind) {
        const bool is_used =
            std::ranges::any_of(chart.dots, [kind](const auto& dot) { return dot.kind == kind; });
        const ScatterKind& shown = chart.kinds[kind];
        if (is_used) legend.push_back({shown.symbol, shown.name, shown.color});
    }
    if (chart.limit) legend.push_back({Symbol::dashes, chart.limit_name, alarm});
    return legend;
}

ScatterLayout layout_of(const ScatterChart& chart) {
    ScatterLayout layout;
    layout.legend = legend_of(chart);
    const double legend_end = place_legend(layout.legend, left, nullptr);
    constexpr double note_line = 14, above = 8;
    layout.note_y = legend_end + 8;
    const double top = legend_end + (chart.note.empty() ? 0 : note_line) + above;
    layout.area = {left, top, page_width - left - right, height - top - below};
    DataExtent x, y;
    for (const ScatterDot& dot : chart.dots) {
        x.add(dot.x);
        y.add(dot.y);
    }
    if (chart.limit) x.add(*chart.limit);
    const bool is_wide = !y.empty() && y.low() > 0 && y.high() > 20 * y.low();
    constexpr int intervals = 6;
    layout.x = Axis::linear(x, layout.area.x, layout.area.right(), intervals);
    layout.y = is_wide ? Axis::logarithmic(y, layout.area.bottom(), layout.area.y, intervals)
                       : Axis::linear(y, layout.area.bottom(), layout.area.y, intervals);
    return layout;
}

void draw_axes(Svg& svg, const ScatterChart& chart, const ScatterLayout& axes) {
    const Rectangle& area = axes.area;
    for (const Tick& tick : axes.y.ticks()) {
        const double y = axes.y.at(tick.value);
        svg.line("grid", {area.x, y}, {area.right(), y}, {grid_color, 0.6});
        svg.text("tick", {area.x - 5, y + 2.8}, tick.label, {label_size, Anchor::end});
    }
    svg.line("axis", {area.x, area.bottom()}, {area.right(), area.bottom()}, {frame_color, 0.8});
    for (const Tick& tick : axes.x.ticks()) {
        const double x = axes.x.at(tick.value);
        svg.line("tick", {x, area.bottom()}, {x, area.bottom() + 3}, {frame_color, 0.8});
        svg.text("tick", {x, area.bottom() + 12}, tick.label, {label_size, Anchor::middle});
    }
    svg.text("label", {11, area.y + area.height / 2},
             chart.y_label + power_of_ten(axes.y.exponent()),
             {title_size, Anchor::middle, ink, -90});
    svg.text("label", {area.x + area.width / 2, height - 5},
             chart.x_label + power_of_ten(axes.x.exponent()), {title_size, Anchor::middle});
}

void draw_dot(Svg& svg, const ScatterKind& kind, Point at) {
    constexpr double radius = 2.2, best_radius = 3;
    switch (kind.symbol) {
        case Symbol::ring:
            svg.ring("dot", at, radius, {kind.color, 0.9});
            break;
        case Symbol::best_dot:
            svg.dot("dot", at, best_radius, kind.color);
            svg.ring("best", at, best_radius + 2.2, {ink, 1.1});
            break;
        case Symbol::dot:
        case Symbol::none:
        case Symbol::box:
        case Symbol::line:
        case Symbol::dashes:
        case Symbol::mark:
        case Symbol::tick:
            svg.dot("dot", at, radius, kind.color);
            break;
    }
}

// Returns the possible places for the label of the dot at `dot`, the nearest first. The label is
// `width` points wide and in type of `size` points.
std::vector<Rectangle> places_of(Point dot, double width, double size) {
    const double line = size + 1;
    std::vector<Rectangle> places;
    for (const double distance : {6.0, 14.0, 26.0, 40.0, 56.0, 76.0, 100.0}) {
        const double right_edge = dot.x + distance, left_edge = dot.x - distance - width;
        const double above = dot.y - distance - line, below_dot = dot.y + distance;
        places.push_back({right_edge + 1, dot.y - line / 2, width, line});
        places.push_back({left_edge - 1, dot.y - line / 2, width, line});
        places.push_back({dot.x - width / 2, above, width, line});
        places.push_back({dot.x - width / 2, below_dot, width, line});
        if (distance < 14) continue;
        for (const double x : {right_edge, left_edge}) {
            places.push_back({x, above, width, line});
            places.push_back({x, below_dot, width, line});
        }
    }
    return places;
}

// A line from a dot to its label.
struct Leader {
    Point dot, end;

    double length() const { return std::hypot(end.x - dot.x, end.y - dot.y); }
    // Returns twice the area of the triangle of this line and `point`: positive on one side of the
    // line, negative on the other.
    double side_of(Point point) const {
        return (end.x - dot.x) * (point.y - dot.y) - (end.y - dot.y) * (point.x - dot.x);
    }
    bool crosses(const Leader& other) const {
        return side_of(other.dot) * side_of(other.end) < 0 &&
               other.side_of(dot) * other.side_of(end) < 0;
    }
    bool crosses(const Rectangle& label) const {
        constexpr int n = 50;  // the tested positions on the line are at most 3 pt apart
        for (int i = 0; i <= n; ++i) {
            const double t = i / double{n};
            const double x = dot.x + t * (end.x - dot.x), y = dot.y + t * (end.y - dot.y);
            if (x > label.x && x < label.right() && y > label.y && y < label.bottom()) return true;
        }
        return false;
    }
};

Leader leader_of(Point dot, const Rectangle& place) {
    return {
        dot,
        {std::clamp(dot.x, place.x, place.right()), std::clamp(dot.y, place.y, place.bottom())}};
}

// Draws the labels in the order of the dots, each at the first free place near its dot.
void draw_labels(Svg& svg, const ScatterChart& chart, const ScatterLayout& axes) {
    const Rectangle& area = axes.area;
    std::vector<Rectangle> dots, labels;
    std::vector<Leader> leaders;
    for (const ScatterDot& dot : chart.dots) {
        const bool is_best = chart.kinds[dot.kind].symbol == Symbol::best_dot;
        const double radius = is_best ? 5.8 : 3;  // the best dot includes its ring
        dots.push_back(
            {axes.x.at(dot.x) - radius, axes.y.at(dot.y) - radius, 2 * radius, 2 * radius});
    }
    std::vector<Rectangle> taken = dots;
    if (chart.limit) taken.push_back({axes.x.at(*chart.limit) - 1, area.y, 2, area.height});
    bool is_first = true;
    for (size_t i = 0; i < chart.dots.size(); ++i) {
        const ScatterDot& dot = chart.dots[i];
        if (dot.label.empty()) continue;
        const bool is_best = chart.kinds[dot.kind].symbol == Symbol::best_dot;
        const double size = is_best ? label_size : small_size;
        const double width = (is_best ? 1.08 : 1) * text_width(dot.label, size);  // bold is wider
        const double x = axes.x.at(dot.x), y = axes.y.at(dot.y);
        const std::vector<Rectangle> places = places_of({x, y}, width, size);
        const auto is_inside = [&area](const Rectangle& place) {
            return place.x >= area.x && place.right() <= area.right() && place.y >= area.y - 6 &&
                   place.bottom() <= area.bottom();
        };
        const auto is_free = [&](const Rectangle& place) {
            const Leader leader = leader_of({x, y}, place);
            return std::ranges::none_of(
                       taken, [&](const Rectangle& other) { return overlap(place, other); }) &&
                   std::ranges::none_of(leaders,
                                        [&](const Leader& other) {
                                            return other.crosses(place) || other.crosses(leader);
                                        }) &&
                   std::ranges::none_of(
                       labels, [&](const Rectangle& other) { return leader.crosses(other); }) &&
                   std::ranges::none_of(dots, [&](const Rectangle& other) {
                       return !overlap(other, dots[i]) && leader.crosses(other);
                   });
        };
        auto place = std::ranges::find_if(
            places, [&](const Rectangle& p) { return is_inside(p) && is_free(p); });
        // The first label is the most important, so it may cover dots.
        if (place == places.end() && is_first) place = std::ranges::find_if(places, is_inside);
        is_first = false;
        if (place == places.end()) continue;
        labels.push_back(*place);
        leaders.push_back(leader_of({x, y}, *place));
        constexpr double next_to = 8;  // a nearer label needs no line
        if (leaders.back().length() > next_to) {
            svg.line("leader", {x, y}, leaders.back().end, {faint, 0.5});
        }
        svg.text("dot-label", {place->x, place->bottom() - 2}, dot.label,
                 {size, Anchor::start, ink, 0, is_best, true});
        taken.push_back(*place);
    }
}

}  // namespace

std::string svg_of(const ScatterChart& chart) {
    Svg svg(page_width, height, chart.title);
    const ScatterLayout layout = layout_of(chart);
    const Rectangle& area = layout.area;
    draw_axes(svg, chart, layout);
    if (chart.limit) {
        const double x = layout.x.at(*chart.limit);
        svg.line("limit", {x, area.y}, {x, area.bottom()}, {alarm, 1.2, "4 2"});
    }
    for (size_t i = chart.dots.size(); i-- > 0;) {
        const ScatterDot& dot = chart.dots[i];
        draw_dot(svg, chart.kinds[dot.kind], {layout.x.at(dot.x), layout.y.at(dot.y)});
    }
    draw_labels(svg, chart, layout);
    place_legend(layout.legend, area.x, &svg);
    if (!chart.note.empty()) {
        svg.text("note", {area.x, layout.note_y}, elided(chart.note, title_size, 0.8 * area.width),
                 {title_size, Anchor::start, ink, 0, true});
    }
    return svg.finish();
}

}  // namespace lm::plot
