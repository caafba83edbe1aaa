// SPDX-License-Identifier: Apache-2.0
// A figure of panels over a common x axis: curves of one or more runs, with marks at restarts and
// at skipped steps.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "plot/svg.hpp"

namespace lm::plot {

// The curve of a run in one panel, in the units of the data. The curve is interrupted where y is
// not finite or x decreases.
struct Curve {
    size_t run = 0;          // index in LineFigure::runs, which gives the color
    bool discarded = false;  // work that a restart repeats: drawn faintly
    std::vector<Point> points;
};

struct Panel {
    std::string title;        // with the unit
    bool may_be_log = false;  // logarithmic when all values are positive and vary a hundredfold
    bool from_zero = false;   // the axis includes 0
    std::vector<Curve> curves;
};

// Marks that are drawn in all panels, at values of x.
struct RunMarks {
    std::string name;              // name of the run
    std::vector<double> restarts;  // vertical dashed lines
    std::vector<double> skipped;   // ticks at the lower edge
};

struct LineFigure {
    std::string title;  // name of the document, not drawn
    std::string x_label;
    std::vector<RunMarks> runs;
    std::vector<Panel> panels;
};

// Returns the figure as SVG, with two panels in each row. Elements: polylines "curve",
// "band" (the extremes of a curve with many points per column) and "discarded"; circles "curve" for
// single points; lines "restart" and "skipped"; texts "legend", "title", "no-data". The numbers of
// elements and of their points are bounded by the width of the picture, whatever the number of
// points in the data.
std::string svg_of(const LineFigure& figure);

}  // namespace lm::plot
