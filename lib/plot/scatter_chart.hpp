// SPDX-License-Identifier: Apache-2.0
// A chart of dots, each at a pair of values (x, y). Some of the dots have labels.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plot/legend.hpp"

namespace lm::plot {

struct ScatterKind {
    std::string name;
    Symbol symbol = Symbol::dot;  // dot, ring or best_dot
    std::string_view color;
};

struct ScatterDot {
    double x = 0, y = 0;
    size_t kind = 0;    // index in ScatterChart::kinds
    std::string label;  // empty: none; bold for Symbol::best_dot
};

struct ScatterChart {
    std::string title;             // name of the document, not drawn
    std::string x_label, y_label;  // with the unit
    std::vector<ScatterKind> kinds;
    std::vector<ScatterDot> dots;  // the first dots are drawn over the later dots
    std::optional<double> limit;   // a dashed vertical line
    std::string limit_name;
    std::string note;  // a sentence above the dots; empty: none
};

// Returns the chart as SVG. Elements: circles "dot", circles "best" around the dots of
// Symbol::best_dot, texts "dot-label", "legend" and "note", a line "limit". Labels are near their
// dots; a line "leader" connects a label that is not next to its dot. A label without space is
// omitted, but the first label may cover dots. A kind without dots has no legend.
std::string svg_of(const ScatterChart& chart);

}  // namespace lm::plot
