// SPDX-License-Identifier: Apache-2.0
// A chart of stacked bars.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lm::plot {

struct BarChart {
    std::string title;                        // name of the document, not drawn
    std::string x_label, y_label;             // y_label includes the unit
    std::vector<std::string> names;           // [bar]
    std::vector<std::string> parts;           // [part], drawn upwards
    std::vector<std::vector<double>> values;  // [bar][part], at least 0
    std::optional<double> limit;              // a dashed line across the bars
    std::string limit_name;
};

// Returns the chart as SVG. Elements: a rect "bar" for each part of a bar that is not 0, a line
// "limit", texts "total" above the bars, "legend". Parts that are 0 in all bars have no legend.
std::string svg_of(const BarChart& chart);

}  // namespace lm::plot
