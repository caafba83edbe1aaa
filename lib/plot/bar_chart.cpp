// SPDX-License-Identifier: Apache-2.0
#include "plot/bar_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "plot/axis.hpp"
#include "plot/style.hpp"
#include "plot/svg.hpp"

namespace lm::plot {
namespace {

constexpr double height = 240;
constexpr double label_gap = 3;  // between a text and its neighbour

double total_of(const std::vector<double>& bar) {
    return std::accumulate(bar.begin(), bar.end(), 0.0);
}

// Returns `value` with two decimals below 10, one below 100, and none above: "7.21", "72.1", "721".
std::string short_number(double value) {
    const int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    return fmt::format("{:.{}f}", value, decimals);
}

// Returns the indices of the parts that are above 0 in some bar.
std::vector<size_t> used_parts(const BarChart& chart) {
    std::vector<size_t> used;
    for (size_t part = 0; part < chart.parts.size(); ++part) {
        if (std::ranges::any_of(chart.values, [part](const auto& bar) { return bar[part] > 0; })) {
            used.push_back(part);
        }
    }
    return used;
}

double widest(const std::vector<std::string>& texts, double size) {
    double width = 0;
    for (const std::string& text : texts) width = std::max(width, text_width(text, size));
    return width;
}

// The positions of a chart on its page.
struct BarLayout {
    Rectangle area;  // where the bars are
    Axis y;
    double slot = 0;  // from one bar to the next
    double bar_width = 0;
    double center(size_t bar) const { return area.x + slot * (static_cast<double>(bar) + 0.5); }
};

BarLayout layout_of(const BarChart& chart, const std::vector<size_t>& used) {
    std::vector<std::string> legend;
    for (const size_t part : used) legend.push_back(chart.parts[part]);
    if (chart.limit) legend.push_back(chart.limit_name);
    constexpr double swatch = 16, margin = 8, left = 44, top = 14, below = 34;
    BarLayout layout;
    const double right = legend.empty() ? margin : widest(legend, label_size) + swatch + 2 * margin;
    layout.area = {left, top, page_width - left - right, height - top - below};
    const auto n = static_cast<double>(std::max<size_t>(1, chart.values.size()));
    layout.slot = layout.area.width / n;
    constexpr double widest_bar = 36, share = 0.72;
    layout.bar_width = std::min(widest_bar, share * layout.slot);
    DataExtent extent;
    extent.add(0);
    for (const std::vector<double>& bar : chart.values) extent.add(1.06 * total_of(bar));
    if (chart.limit) extent.add(1.02 * *chart.limit);
    if (extent.high() == 0) extent.add(1);
    constexpr int y_intervals = 6;
    layout.y = Axis::linear(extent, layout.area.bottom(), layout.area.y, y_intervals);
    return layout;
}

void draw_axes(Svg& svg, const BarChart& chart, const BarLayout& layout) {
    const Rectangle& area = layout.area;
    for (const Tick& tick : layout.y.ticks()) {
        const double y = layout.y.at(tick.value);
        svg.line("grid", {area.x, y}, {area.right(), y}, {grid_color, 0.6});
        svg.text("tick", {area.x - 5, y + 2.8}, tick.label, {label_size, Anchor::end});
    }
    svg.line("axis", {area.x, area.bottom()}, {area.right(), area.bottom()}, {frame_color, 0.8});
    svg.text("label", {11, area.y + area.height / 2}, chart.y_label,
             {title_size, Anchor::middle, ink, -90});
    svg.text("label", {area.x + area.width / 2, height - 5}, chart.x_label,
             {title_size, Anchor::middle});
}

// Writes the names of the bars. If they would overlap, writes only every n-th name.
void draw_names(Svg& svg, const BarChart& chart, const BarLayout& layout) {
    const double width = widest(chart.names, label_size) + label_gap;
    const auto every = static_cast<size_t>(std::max(1.0, std::ceil(width / layout.slot)));
    for (size_t bar = 0; bar < chart.names.size(); bar += every) {
        svg.text("name", {layout.center(bar), layout.area.bottom() + 11}, chart.names[bar],
                 {label_size, Anchor::middle});
    }
}

void draw_bars(Svg& svg, const BarChart& chart, const BarLayout& layout) {
    for (size_t bar = 0; bar < chart.values.size(); ++bar) {
        double sum = 0;
        for (size_t part = 0; part < chart.parts.size(); ++part) {
            const double value = chart.values[bar][part];
            if (!(value > 0)) continue;
            const double bottom = layout.y.at(sum);
            sum += value;
            const double y = layout.y.at(sum);
            const double gap = std::min(0.5, 0.2 * (bottom - y));  // to the next part
            svg.box("bar",
                    {layout.center(bar) - layout.bar_width / 2, y + gap, layout.bar_width,
                     bottom - y - gap},
                    color_of(part),
                    fmt::format("{} {}: {} {}", chart.x_label, chart.names[bar], chart.parts[part],
                                short_number(value)));
        }
    }
}

// Writes the sums above the bars: horizontally if they fit, else turned by 90 degrees. Writes no
// sums if even turned texts would overlap.
void draw_totals(Svg& svg, const BarChart& chart, const BarLayout& layout) {
    std::vector<std::string> totals;
    for (const std::vector<double>& bar : chart.values) {
        totals.push_back(short_number(total_of(bar)));
    }
    const bool upright = widest(totals, small_size) + label_gap <= layout.slot;
    if (!upright && layout.slot < small_size + 1) return;
    for (size_t bar = 0; bar < totals.size(); ++bar) {
        const double y = layout.y.at(total_of(chart.values[bar])) - 3;
        if (upright) {
            svg.text("total", {layout.center(bar), y}, totals[bar],
                     {small_size, Anchor::middle, ink, 0, false, true});
        } else {
            svg.text("total", {layout.center(bar) + 2.5, y}, totals[bar],
                     {small_size, Anchor::start, ink, -90, false, true});
        }
    }
}

// Lists the parts in the order in which a bar stacks them, the uppermost first.
void draw_legend(Svg& svg, const BarChart& chart, const BarLayout& layout,
                 const std::vector<size_t>& used) {
    constexpr double line_height = 13, swatch = 8;
    const double x = layout.area.right() + 10;
    double y = layout.area.y + swatch;
    if (chart.limit) {
        svg.line("key", {x, y - 3}, {x + 10, y - 3}, {alarm, 1.2, "4 2"});
        svg.text("legend", {x + 14, y}, chart.limit_name, {label_size});
        y += line_height;
    }
    for (size_t i = used.size(); i-- > 0; y += line_height) {
        svg.box("key", {x, y - 7, swatch, swatch}, color_of(used[i]));
        svg.text("legend", {x + 14, y}, chart.parts[used[i]], {label_size});
    }
}

}  // namespace

std::string svg_of(const BarChart& chart) {
    const std::vector<size_t> used = used_parts(chart);
    const BarLayout layout = layout_of(chart, used);
    Svg svg(page_width, height, chart.title);
    draw_axes(svg, chart, layout);
    draw_bars(svg, chart, layout);
    if (chart.limit) {
        const double y = layout.y.at(*chart.limit);
        svg.line("limit", {layout.area.x, y}, {layout.area.right(), y}, {alarm, 1.2, "4 2"});
    }
    draw_totals(svg, chart, layout);  // after the limit line, which must not cover the sums
    draw_names(svg, chart, layout);
    draw_legend(svg, chart, layout, used);
    return svg.finish();
}

}  // namespace lm::plot
