// SPDX-License-Identifier: Apache-2.0
#include "plot/scatter_chart.hpp"

#include <algorithm>
#include <iterator>

#include "plot/axis.hpp"
#include "plot/style.hpp"
#include "plot/svg.hpp"

namespace lm::plot {
namespace {

constexpr double height = 300, left = 48, right = 12, top = 24, below = 34;
constexpr Rectangle area{left, top, page_width - left - right, height - top - below};

bool overlap(const Rectangle& a, const Rectangle& b) {
    return a.x < b.right() && b.x < a.right() && a.y < b.bottom() && b.y < a.bottom();
}

struct Axes {
    Axis x, y;
};

Axes axes_of(const ScatterChart& chart) {
    DataExtent x, y;
    for (const ScatterDot& dot : chart.dots) {
        x.add(dot.x);
        y.add(dot.y);
    }
    if (chart.limit) x.add(*chart.limit);
    const bool is_wide = !y.empty() && y.low() > 0 && y.high() > 20 * y.low();
    constexpr int intervals = 6;
    return {Axis::linear(x, area.x, area.right(), intervals),
            is_wide ? Axis::logarithmic(y, area.bottom(), area.y, intervals)
                    : Axis::linear(y, area.bottom(), area.y, intervals)};
}

void draw_axes(Svg& svg, const ScatterChart& chart, const Axes& axes) {
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

void draw_legend(Svg& svg, const ScatterChart& chart) {
    double x = area.x;
    for (size_t kind = 0; kind < chart.kinds.size(); ++kind) {
        svg.dot("key", {x + 4, 11}, 3, color_of(kind));
        svg.text("legend", {x + 11, 14}, chart.kinds[kind], {label_size});
        x += 26 + text_width(chart.kinds[kind], label_size);
    }
    if (!chart.limit) return;
    svg.line("key", {x, 11}, {x + 10, 11}, {alarm, 1.2, "4 2"});
    svg.text("legend", {x + 14, 14}, chart.limit_name, {label_size});
}

// Draws the labels in the order of the dots, each at the first free place next to its dot.
void draw_labels(Svg& svg, const ScatterChart& chart, const Axes& axes) {
    std::vector<Rectangle> taken;
    for (const ScatterDot& dot : chart.dots) {
        taken.push_back({axes.x.at(dot.x) - 3, axes.y.at(dot.y) - 3, 6, 6});
    }
    if (chart.limit) taken.push_back({axes.x.at(*chart.limit) - 1, area.y, 2, area.height});
    constexpr double line = small_size + 1;
    bool is_first = true;
    for (const ScatterDot& dot : chart.dots) {
        if (dot.label.empty()) continue;
        const double width = text_width(dot.label, small_size);
        const double x = axes.x.at(dot.x), y = axes.y.at(dot.y);
        const auto place_at = [&](double left_edge, double upper_edge) {
            return Rectangle{left_edge, upper_edge, width, line};
        };
        const Rectangle places[] = {
            place_at(x + 5, y - line / 2), place_at(x - 5 - width, y - line / 2),
            place_at(x - width / 2, y - 4 - line), place_at(x - width / 2, y + 4)};
        const auto is_inside = [](const Rectangle& place) {
            return place.x >= area.x && place.right() <= area.right() && place.y >= 18 &&
                   place.bottom() <= area.bottom();
        };
        const auto is_free = [&](const Rectangle& place) {
            return std::ranges::none_of(
                taken, [&](const Rectangle& other) { return overlap(place, other); });
        };
        const auto* place = std::ranges::find_if(
            places, [&](const Rectangle& p) { return is_inside(p) && is_free(p); });
        // The first label is the most important: it may cover dots.
        if (place == std::end(places) && is_first) place = std::ranges::find_if(places, is_inside);
        is_first = false;
        if (place == std::end(places)) continue;
        svg.text("dot-label", {place->x, place->bottom() - 2}, dot.label,
                 {small_size, Anchor::start, ink, 0, false, true});
        taken.push_back(*place);
    }
}

}  // namespace

std::string svg_of(const ScatterChart& chart) {
    Svg svg(page_width, height, chart.title);
    const Axes axes = axes_of(chart);
    draw_axes(svg, chart, axes);
    if (chart.limit) {
        const double x = axes.x.at(*chart.limit);
        svg.line("limit", {x, area.y}, {x, area.bottom()}, {alarm, 1.2, "4 2"});
    }
    for (const ScatterDot& dot : chart.dots) {
        svg.dot("dot", {axes.x.at(dot.x), axes.y.at(dot.y)}, 2.2, color_of(dot.kind));
    }
    draw_labels(svg, chart, axes);
    draw_legend(svg, chart);
    return svg.finish();
}

}  // namespace lm::plot
