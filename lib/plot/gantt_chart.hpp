// SPDX-License-Identifier: Apache-2.0
// A chart of work over time: a row of boxes for each worker, and a bar of shares below.
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
};

struct GanttChart {
    std::string title;  // name of the document, not drawn
    std::string x_label, row_label;
    size_t n_rows = 0;
    std::vector<std::string> kinds;
    std::vector<GanttSpan> spans;    // ascending and without overlap within a row
    double end = 0;                  // end of the time axis
    std::vector<GanttShare> shares;  // drawn as one bar; empty: no bar
};

// Returns the chart as SVG. Elements: a rect "span" for each box, rects "share", texts "row",
// "legend", "share-name". If the boxes of a row are narrower than a point on average, each
// stretch of at least two points is filled from below with the share of its time that each kind
// takes, so that the number of elements is bounded.
std::string svg_of(const GanttChart& chart);

}  // namespace lm::plot
