// SPDX-License-Identifier: Apache-2.0
// The house style of the pictures: the width of a page of text, small sans-serif type, and colors
// that readers with any color vision distinguish (Okabe and Ito, "Color Universal Design", 2008).
#pragma once

#include <array>
#include <string_view>

namespace lm::plot {

inline constexpr double page_width = 504;  // 7 inches: two columns of a paper
inline constexpr double small_size = 7, label_size = 8, title_size = 9;  // sizes of type
inline constexpr std::string_view ink = "#222222", frame_color = "#555555", grid_color = "#e4e4e4",
                                  faint = "#8a8a8a", alarm = "#d55e00";
// Neighbours in a stack differ in lightness, so that a print in shades of gray shows their border.
inline constexpr std::array<std::string_view, 8> palette = {
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#882255", "#56b4e9", "#6b4c00", "#9a9a9a"};
constexpr std::string_view color_of(size_t index) {
    return palette[index % palette.size()];
}

// Returns the color, black or white, of a text on a box of the color `background` ("#rrggbb").
constexpr std::string_view text_color_on(std::string_view background) {
    const auto channel = [background](size_t at) {
        int value = 0;
        for (const char c : background.substr(at, 2)) {
            value = 16 * value + (c <= '9' ? c - '0' : c - 'a' + 10);
        }
        return value;
    };
    // The lightness of the color, from 0 to 1000 (ITU-R BT.601).
    const int light = (299 * channel(1) + 587 * channel(3) + 114 * channel(5)) / 255;
    return light > 550 ? ink : "#ffffff";
}

}  // namespace lm::plot
