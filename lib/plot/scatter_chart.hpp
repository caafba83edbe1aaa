// SPDX-License-Identifier: Apache-2.0
// A chart of dots, each at a pair of values (x, y). Some of the dots have labels.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lm::plot {

struct ScatterDot {
    double x = 0, y = 0;
    size_t kind = 0;    // index in ScatterChart::kinds, which gives the color
    std::string label;  // empty: none
};

struct ScatterChart {
    std::string title;             // name of the document, not drawn
    std::string x_label, y_label;  // with the unit
    std::vector<std::string> kinds;
    std::vector<ScatterDot> dots;
    std::optional<double> limit;  // a dashed vertical line
    std::string limit_name;
};

// Returns the chart as SVG. Elements: circles "dot", texts "dot-label" and "legend", a line
// "limit". Labels are near their dots; a line "leader" connects a label that is not next to its
// dot. A label without space is omitted, but the first label may cover dots.
std::string svg_of(const ScatterChart& chart);

}  // namespace lm::plot
