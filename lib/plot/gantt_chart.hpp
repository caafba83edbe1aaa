// SPDX-License-Identifier: Apache-2.0
// A chart of work over time: a row of boxes for each worker, and a list of shares below.
#pragma once

#include <string>
#include <vector>

namespace lm::plot {

struct GanttSpan {
    size_t row = 0;
    size_t kind = 0;  // index in GanttChart::kinds, which gives the color
    double start = 0, end = 0;
    std::string label;  // drawn where it fits in the box
};

struct GanttShare {
    std::string name;
    double value = 0;
    std::string text;  // the value with its unit
};

struct GanttChart {
    std::string title;        // name of the document, not drawn
    std::string x_label;      // with the unit
    std::string row_heading;  // above the numbers of the rows
    size_t n_rows = 0;
    std::vector<std::string> kinds;
    std::vector<GanttSpan> spans;    // ascending and without overlap within a row
    double end = 0;                  // end of the time axis
    std::string end_label;           // text at the end of the time axis
    std::string label_note;          // meaning of the labels of the spans, for the legend
    std::vector<GanttShare> shares;  // drawn as bars with names and values; empty: none
    std::string shares_heading;      // above the shares
};

// Returns the chart as SVG. Elements: a rect "idle" for each row, a rect "span" for each box, rects
// "share", texts "row", "legend", "end", "span-label", "share-name", "share-value". If the boxes of
// any row are narrower than a point on average, all rows are drawn in stretches of at least two
// points. In a stretch, the kinds are stacked, and the height of a kind is its share of the time,
// as the legend states. This bounds the number of elements.
std::string svg_of(const GanttChart& chart);

}  // namespace lm::plot
