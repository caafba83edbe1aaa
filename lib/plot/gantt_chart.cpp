// SPDX-License-Identifier: Apache-2.0
#include "plot/gantt_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plot/axis.hpp"
#include "plot/style.hpp"
#include "plot/svg.hpp"

namespace lm::plot {
namespace {

constexpr double left = 44, right = 12, top = 24;
constexpr double bin_width = 2;  // points

// The positions of a chart on its page.
struct GanttLayout {
    double row_height = 0;
    Rectangle rows;
    Axis x;
    double height = 0;  // height of the page
};

GanttLayout layout_of(const GanttChart& chart) {
    GanttLayout layout;
    const auto n = static_cast<double>(std::max<size_t>(1, chart.n_rows));
    layout.row_height = std::clamp(300 / n, 3.0, 16.0);
    layout.rows = {left, top, page_width - left - right, n * layout.row_height};
    constexpr double below_axis = 34, share_line = 12, bar = 34;
    const auto lines = static_cast<double>((chart.shares.size() + 1) / 2);
    layout.height =
        layout.rows.bottom() + below_axis + (chart.shares.empty() ? 0 : bar + lines * share_line);
    DataExtent extent;
    extent.add(0);
    extent.add(chart.end);
    constexpr int most_intervals = 8;
    layout.x = Axis::tight(extent, layout.rows.x, layout.rows.right(), most_intervals);
    return layout;
}

// Returns the box between two times in a row. The box leaves a gap to the next row.
Rectangle box_of(const GanttLayout& layout, size_t row, double from, double to) {
    const double gap = std::min(1.5, 0.15 * layout.row_height);
    return {from, layout.rows.y + static_cast<double>(row) * layout.row_height + gap / 2, to - from,
            layout.row_height - gap};
}

void draw_span(Svg& svg, const GanttLayout& layout, const GanttChart& chart,
               const GanttSpan& span) {
    const Rectangle box = box_of(layout, span.row, layout.x.at(span.start), layout.x.at(span.end));
    const double gap = std::min(0.4, 0.1 * box.width);
    svg.box(
        "span", {box.x, box.y, box.width - gap, box.height}, color_of(span.kind),
        fmt::format("{} {}: {} {}", chart.row_label, span.row, chart.kinds[span.kind], span.label));
    const bool fits =
        text_width(span.label, small_size) + 2 <= box.width && box.height >= small_size + 1;
    if (!fits) return;
    svg.text("span-label", {box.x + box.width / 2, box.y + box.height / 2 + 2.5}, span.label,
             {small_size, Anchor::middle, "#ffffff"});
}

// Draws the spans [begin, end) of one row in bins, because the boxes of the single spans would be
// too narrow. Each bin is filled from below with the share of its time that each kind takes.
void draw_binned(Svg& svg, const GanttLayout& layout, const GanttChart& chart, size_t begin,
                 size_t end) {
    const size_t row = chart.spans[begin].row;
    const auto n_bins = static_cast<size_t>(std::ceil(layout.rows.width / bin_width));
    const size_t n_kinds = chart.kinds.size();
    std::vector<double> times(n_bins * (n_kinds + 1));  // [bin][kind] points; the last kind: idle
    for (size_t bin = 0; bin < n_bins; ++bin) times[bin * (n_kinds + 1) + n_kinds] = bin_width;
    for (size_t i = begin; i < end; ++i) {
        const GanttSpan& span = chart.spans[i];
        double from = layout.x.at(span.start) - layout.rows.x;
        const double to = layout.x.at(span.end) - layout.rows.x;
        while (from < to) {
            const size_t bin = std::min(static_cast<size_t>(from / bin_width), n_bins - 1);
            const double until =
                bin + 1 == n_bins ? to : std::min(to, static_cast<double>(bin + 1) * bin_width);
            times[bin * (n_kinds + 1) + span.kind] += until - from;
            times[bin * (n_kinds + 1) + n_kinds] -= until - from;
            from = std::max(until, from + 1e-9);
        }
    }
    const auto share_of = [&](size_t bin, size_t kind) {
        return times[bin * (n_kinds + 1) + kind] / bin_width;
    };
    // When spans are almost as long as bins, the shares oscillate from bin to bin. Similar bins are
    // merged into one stretch that shows their mean.
    const auto is_similar = [&](size_t bin, size_t first) {
        for (size_t kind = 0; kind < n_kinds; ++kind) {
            if (std::abs(share_of(bin, kind) - share_of(first, kind)) > 0.15) return false;
        }
        return true;
    };
    for (size_t bin = 0; bin < n_bins;) {
        size_t next = bin + 1;
        while (next < n_bins && is_similar(next, bin)) ++next;
        const double from = layout.rows.x + static_cast<double>(bin) * bin_width;
        const double to =
            std::min(layout.rows.right(), layout.rows.x + static_cast<double>(next) * bin_width);
        const Rectangle box = box_of(layout, row, from, to);
        double bottom = box.bottom();
        for (size_t kind = 0; kind < n_kinds; ++kind) {
            double share = 0;
            for (size_t i = bin; i < next; ++i) share += share_of(i, kind);
            const double height = box.height * share / static_cast<double>(next - bin);
            if (height < 0.01) continue;
            bottom -= height;
            svg.box("span", {box.x, bottom, box.width, height}, color_of(kind));
        }
        bin = next;
    }
}

void draw_rows(Svg& svg, const GanttLayout& layout, const GanttChart& chart) {
    for (size_t begin = 0; begin < chart.spans.size();) {
        size_t end = begin;
        double width = 0;
        while (end < chart.spans.size() && chart.spans[end].row == chart.spans[begin].row) {
            width += layout.x.at(chart.spans[end].end) - layout.x.at(chart.spans[end].start);
            ++end;
        }
        if (width >= static_cast<double>(end - begin)) {
            for (size_t i = begin; i < end; ++i) draw_span(svg, layout, chart, chart.spans[i]);
        } else {
            draw_binned(svg, layout, chart, begin, end);
        }
        begin = end;
    }
}

void draw_axes(Svg& svg, const GanttLayout& layout, const GanttChart& chart) {
    const Rectangle& rows = layout.rows;
    for (size_t row = 0; row < chart.n_rows; ++row) {
        svg.box("idle", box_of(layout, row, rows.x, rows.right()), "#f1f1f1");
    }
    const auto every = static_cast<size_t>(std::ceil((small_size + 1) / layout.row_height));
    for (size_t row = 0; row < chart.n_rows; row += every) {
        const double y = rows.y + (static_cast<double>(row) + 0.5) * layout.row_height + 2.5;
        svg.text("row", {rows.x - 5, y}, fmt::format("{}", row), {small_size, Anchor::end});
    }
    for (const Tick& tick : layout.x.ticks()) {
        const double x = layout.x.at(tick.value);
        svg.line("tick", {x, rows.bottom()}, {x, rows.bottom() + 3}, {frame_color, 0.8});
        svg.text("tick", {x, rows.bottom() + 11}, tick.label, {label_size, Anchor::middle});
    }
    svg.text("label", {11, rows.y + rows.height / 2}, chart.row_label,
             {title_size, Anchor::middle, ink, -90});
    svg.text("label", {rows.x + rows.width / 2, rows.bottom() + 24},
             chart.x_label + power_of_ten(layout.x.exponent()), {title_size, Anchor::middle});
}

void draw_legend(Svg& svg, const GanttLayout& layout, const GanttChart& chart) {
    double x = layout.rows.x;
    for (size_t kind = 0; kind < chart.kinds.size(); ++kind) {
        svg.box("key", {x, 7, 8, 8}, color_of(kind));
        svg.text("legend", {x + 12, 14}, chart.kinds[kind], {label_size});
        x += 26 + text_width(chart.kinds[kind], label_size);
    }
}

// Draws the shares as one bar of the width of the rows, and their names with percentages in two
// columns below it.
void draw_shares(Svg& svg, const GanttLayout& layout, const GanttChart& chart) {
    double sum = 0;
    for (const GanttShare& share : chart.shares) sum += share.value;
    if (!(sum > 0)) return;
    const double y = layout.rows.bottom() + 36;
    double x = layout.rows.x;
    for (size_t i = 0; i < chart.shares.size(); ++i) {
        const GanttShare& share = chart.shares[i];
        const double width = layout.rows.width * share.value / sum;
        const std::string percent = fmt::format("{:.1f} %", 100 * share.value / sum);
        if (width > 0) svg.box("share", {x, y, width, 12}, color_of(i), share.name + " " + percent);
        x += width;
        const size_t column = i % 2;
        const double name_x = layout.rows.x + static_cast<double>(column) * layout.rows.width / 2;
        const double name_y = y + 26 + static_cast<double>(i / 2) * 12;
        svg.box("key", {name_x, name_y - 7, 8, 8}, color_of(i));
        svg.text("share-name", {name_x + 12, name_y}, fmt::format("{}, {}", share.name, percent),
                 {label_size});
    }
}

}  // namespace

std::string svg_of(const GanttChart& chart) {
    const GanttLayout layout = layout_of(chart);
    Svg svg(page_width, layout.height, chart.title);
    draw_axes(svg, layout, chart);
    draw_rows(svg, layout, chart);
    draw_legend(svg, layout, chart);
    if (!chart.shares.empty()) draw_shares(svg, layout, chart);
    return svg.finish();
}

}  // namespace lm::plot
