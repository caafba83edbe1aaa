// SPDX-License-Identifier: Apache-2.0
// A legend: symbols and their meanings, in rows above a chart.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "plot/svg.hpp"

namespace lm::plot {

// The symbol before the text of an entry. `none`: a note without a symbol. `dashes`: a horizontal
// dashed line; `mark`: a vertical dashed line; `tick`: a short vertical line.
enum class Symbol { none, box, dot, ring, best_dot, line, dashes, mark, tick };

struct LegendEntry {
    Symbol symbol = Symbol::box;
    std::string text;
    std::string_view color;
};

// Places the entries in rows from `left` to the right margin of the page, and draws them if `svg`
// is not null. Returns the y of the lower edge; without entries, the upper margin of the page.
// Elements: "key" for the symbols, texts "legend".
double place_legend(std::span<const LegendEntry> entries, double left, Svg* svg);

}  // namespace lm::plot
