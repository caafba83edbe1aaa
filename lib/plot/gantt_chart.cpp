// SPDX-License-Identifier: Apache-2.0
#include "plot/gantt_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plot/axis.hpp"
#include "plot/legend.hpp"
#include "plot/style.hpp"
#include "plot/svg.hpp"

namespace lm::plot {
namespace {

constexpr double left = 44, right = 12;
constexpr double bin_width = 2;  // points
constexpr double share_height = 12;
constexpr std::string_view idle_color = "#e8e8e8", share_color = "#5c6670";

// The positions of a chart on its page.
struct GanttLayout {
    std::vector<LegendEntry> legend;
    bool is_binned = false;
    double label_width = 0;  // width of the longest label; narrower boxes have no label
    double row_height = 0;
    Rectangle rows;
    Axis x;
    double shares_y = 0;  // upper edge of the first share
    double height = 0;    // height of the page
};

// Returns whether the boxes of some row are narrower than a point on average.
bool has_narrow_boxes(const GanttChart& chart, const Axis& x) {
    std::vector<double> widths(chart.n_rows), boxes(chart.n_rows);
    for (const GanttSpan& span : chart.spans) {
        widths[span.row] += x.at(span.end) - x.at(span.start);
        boxes[span.row] += 1;
    }
    for (size_t row = 0; row < chart.n_rows; ++row) {
        if (widths[row] < boxes[row]) return true;
    }
    return false;
}

std::vector<LegendEntry> legend_of(const GanttChart& chart, bool is_binned, bool has_labels) {
    std::vector<LegendEntry> legend;
    for (size_t kind = 0; kind < chart.kinds.size(); ++kind) {
        const bool is_used = std::ranges::any_of(
            chart.spans, [kind](const auto& span) { return span.kind == kind; });
        if (is_used) legend.push_back({Symbol::box, chart.kinds[kind], color_of(kind)});
    }
    legend.push_back({Symbol::box, "idle", idle_color});
    if (is_binned) {
        legend.push_back({Symbol::none, "height of a color: its share of the time", ink});
    } else if (has_labels && !chart.label_note.empty()) {
        legend.push_back({Symbol::none, chart.label_note, ink});
    }
    return legend;
}

// Returns whether the label of `span` is drawn. A kind has all labels or none, unless its spans
// have different lengths.
bool is_labelled(const GanttLayout& layout, const GanttSpan& span) {
    const double width = layout.x.at(span.end) - layout.x.at(span.start);
    return !span.label.empty() && layout.label_width + 2 <= width &&
           layout.row_height >= small_size + 2.5;
}

GanttLayout layout_of(const GanttChart& chart) {
    GanttLayout layout;
    DataExtent extent;
    extent.add(0);
    extent.add(chart.end);
    constexpr int most_intervals = 8;
    layout.x = Axis::tight(extent, left, page_width - right, most_intervals);
    layout.is_binned = has_narrow_boxes(chart, layout.x);
    const auto n = static_cast<double>(std::max<size_t>(1, chart.n_rows));
    layout.row_height = std::clamp(300 / n, 3.0, 16.0);
    for (const GanttSpan& span : chart.spans)
        layout.label_width = std::max(layout.label_width, text_width(span.label, small_size));
    const bool has_labels = std::ranges::any_of(
        chart.spans, [&](const GanttSpan& span) { return is_labelled(layout, span); });
    layout.legend = legend_of(chart, layout.is_binned, has_labels);
    const double top = place_legend(layout.legend, left, nullptr) + 4;
    layout.rows = {left, top, page_width - left - right, n * layout.row_height};
    constexpr double below_axis = 34, heading = 16, below_shares = 6;
    layout.shares_y = layout.rows.bottom() + below_axis + heading;
    layout.height = layout.rows.bottom() + below_axis;
    if (!chart.shares.empty()) {
        layout.height = layout.shares_y + share_height * static_cast<double>(chart.shares.size()) +
                        below_shares;
    }
    return layout;
}

// Returns the box of row `row` from x = `from` to x = `to`, positions on the page. The box leaves a
// gap to the next row.
Rectangle box_of(const GanttLayout& layout, size_t row, double from, double to) {
    const double gap = std::min(1.5, 0.15 * layout.row_height);
    return {from, layout.rows.y + static_cast<double>(row) * layout.row_height + gap / 2, to - from,
            layout.row_height - gap};
}

void draw_span(Svg& svg, const GanttLayout& layout, const GanttChart& chart,
               const GanttSpan& span) {
    const Rectangle box = box_of(layout, span.row, layout.x.at(span.start), layout.x.at(span.end));
    const double gap = std::min(0.4, 0.1 * box.width);
    svg.box("span", {box.x, box.y, box.width - gap, box.height}, color_of(span.kind),
            fmt::format("{} {}: {} {}", chart.row_heading, span.row, chart.kinds[span.kind],
                        span.label));
    if (!is_labelled(layout, span)) return;
    svg.text("span-label", {box.x + box.width / 2, box.y + box.height / 2 + 2.5}, span.label,
             {small_size, Anchor::middle, text_color_on(color_of(span.kind))});
}

// Draws the spans [begin, end) of one row in bins, because the boxes of the single spans would be
// too narrow. In a bin, the boxes of the kinds are stacked from below; the height of a box is the
// kind's share of the bin's time.
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
        while (end < chart.spans.size() && chart.spans[end].row == chart.spans[begin].row) ++end;
        if (layout.is_binned) {
            draw_binned(svg, layout, chart, begin, end);
        } else {
            for (size_t i = begin; i < end; ++i) draw_span(svg, layout, chart, chart.spans[i]);
        }
        begin = end;
    }
}

void draw_axes(Svg& svg, const GanttLayout& layout, const GanttChart& chart) {
    const Rectangle& rows = layout.rows;
    for (size_t row = 0; row < chart.n_rows; ++row) {
        svg.box("idle", box_of(layout, row, rows.x, rows.right()), idle_color);
    }
    svg.text("row-heading", {rows.x - 5, rows.y - 8}, chart.row_heading, {label_size, Anchor::end});
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
    svg.text("label", {rows.x + rows.width / 2, rows.bottom() + 24},
             chart.x_label + power_of_ten(layout.x.exponent()), {title_size, Anchor::middle});
    if (chart.end_label.empty()) return;
    svg.line("end", {rows.right(), rows.y}, {rows.right(), rows.bottom() + 3}, {ink, 0.8});
    svg.text("end", {rows.right(), rows.bottom() + 24}, chart.end_label, {label_size, Anchor::end});
}

// Draws each share as a bar between its name and its value. All bars have the same color, because
// the other colors stand for the kinds of spans.
void draw_shares(Svg& svg, const GanttLayout& layout, const GanttChart& chart) {
    constexpr double margin = 8, gap = 5, bar_height = 8;
    double largest = 0, widest_name = 0, widest_text = 0;
    for (const GanttShare& share : chart.shares) {
        largest = std::max(largest, share.value);
        // DejaVu Sans is wider than text_width().
        constexpr double wide = 1.1;
        widest_name = std::max(widest_name, wide * text_width(share.name, label_size));
        widest_text = std::max(widest_text, wide * text_width(share.text, label_size));
    }
    svg.text("share-heading", {margin, layout.shares_y - 5}, chart.shares_heading,
             {title_size, Anchor::start, ink, 0, true});
    const double x = margin + widest_name + gap;
    const double width = page_width - x - gap - widest_text - margin;
    double y = layout.shares_y;
    for (const GanttShare& share : chart.shares) {
        const double length = largest > 0 ? width * share.value / largest : 0;
        svg.text("share-name", {margin, y + 8.5}, share.name, {label_size});
        svg.box("share", {x, y + 2, length, bar_height}, share_color,
                share.name + " " + share.text);
        svg.text("share-value", {x + length + gap, y + 8.5}, share.text, {label_size});
        y += share_height;
    }
}

}  // namespace

std::string svg_of(const GanttChart& chart) {
    const GanttLayout layout = layout_of(chart);
    Svg svg(page_width, layout.height, chart.title);
    draw_axes(svg, layout, chart);
    draw_rows(svg, layout, chart);
    place_legend(layout.legend, layout.rows.x, &svg);
    if (!chart.shares.empty()) draw_shares(svg, layout, chart);
    return svg.finish();
}

}  // namespace lm::plot
