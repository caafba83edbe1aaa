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
inline constexpr std::array<std::string_view, 8> palette = {
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#b8860b", "#882255", "#9a9a9a"};
constexpr std::string_view color_of(size_t index) {
    return palette[index % palette.size()];
}

}  // namespace lm::plot
