// SPDX-License-Identifier: Apache-2.0
#include "plot/legend.hpp"

#include "plot/style.hpp"

namespace lm::plot {
namespace {

constexpr double row_height = 12, gap = 14;

double symbol_width(Symbol symbol) {
    switch (symbol) {
        case Symbol::none:
            return 0;
        case Symbol::box:
        case Symbol::dot:
        case Symbol::ring:
            return 12;
        case Symbol::best_dot:
        case Symbol::line:
        case Symbol::dashes:
        case Symbol::mark:
        case Symbol::tick:
            break;
    }
    return 16;
}

// Draws the symbol of an entry whose text begins at (x + width of the symbol, y).
void draw_symbol(Svg& svg, const LegendEntry& entry, double x, double y) {
    const std::string_view color = entry.color;
    switch (entry.symbol) {
        case Symbol::none:
            break;
        case Symbol::box:
            svg.box("key", {x, y - 7, 8, 8}, color);
            break;
        case Symbol::dot:
            svg.dot("key", {x + 4, y - 3}, 3, color);
            break;
        case Symbol::ring:
            svg.ring("key", {x + 4, y - 3}, 2.6, {color, 0.9});
            break;
        case Symbol::best_dot:
            svg.dot("key", {x + 6, y - 3}, 3.2, color);
            svg.ring("key", {x + 6, y - 3}, 5, {ink, 1});
            break;
        case Symbol::line:
            svg.line("key", {x, y - 3}, {x + 12, y - 3}, {color, 1.6});
            break;
        case Symbol::dashes:
            svg.line("key", {x, y - 3}, {x + 12, y - 3}, {color, 1.2, "4 2"});
            break;
        case Symbol::mark:
            svg.line("key", {x + 6, y - 8}, {x + 6, y + 1}, {color, 0.8, "2.5 2"});
            break;
        case Symbol::tick:
            svg.line("key", {x + 6, y - 6}, {x + 6, y}, {color, 1.2});
            break;
    }
}

}  // namespace

double place_legend(std::span<const LegendEntry> entries, double left, Svg* svg) {
    constexpr double margin = 8, upper_margin = 2, first_line = 12, below = 4;
    double x = left, y = first_line;
    for (const LegendEntry& entry : entries) {
        const double width = symbol_width(entry.symbol) + text_width(entry.text, label_size);
        if (x > left && x + width > page_width - margin) {
            x = left;
            y += row_height;
        }
        if (svg != nullptr) {
            draw_symbol(*svg, entry, x, y);
            svg->text("legend", {x + symbol_width(entry.symbol), y}, entry.text, {label_size});
        }
        x += width + gap;
    }
    return entries.empty() ? upper_margin : y + below;
}

}  // namespace lm::plot
