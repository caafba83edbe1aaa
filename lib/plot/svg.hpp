// SPDX-License-Identifier: Apache-2.0
// Writes a picture as SVG (W3C Scalable Vector Graphics 1.1). Does not use gnuplot, which most
// login nodes lack and whose output differs between versions. Does not use a library, because the
// C++ libraries of the distributions write SVG only with a GUI toolkit. The pictures need only
// lines, boxes and text. Lengths are points (1/72 inch); y grows downwards.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lm::plot {

struct Point {
    double x = 0, y = 0;
};

struct Rectangle {
    double x = 0, y = 0, width = 0, height = 0;
    double right() const { return x + width; }
    double bottom() const { return y + height; }
};

struct Stroke {
    std::string_view color;
    double width = 1;
    std::string_view dashes = {};  // lengths of dashes and gaps: "3 2"
    double opacity = 1;
};

enum class Anchor { start, middle, end };

struct TextStyle {
    double size = 8;
    Anchor anchor = Anchor::start;
    std::string_view color = "#222222";
    double rotation = 0;  // degrees, clockwise, about the anchor
    bool bold = false;
    bool halo = false;  // a white border, which keeps the text readable over grid lines
};

class Svg {
  public:
    // A white page; viewers show `title` as the name of the picture.
    Svg(double width, double height, std::string_view title);

    // Adds a line. `kind` is the class attribute of the element, by which tests and style sheets
    // find the element.
    void line(std::string_view kind, Point from, Point to, const Stroke& stroke);
    void polyline(std::string_view kind, std::span<const Point> points, const Stroke& stroke);
    void dot(std::string_view kind, Point center, double radius, std::string_view color);
    void ring(std::string_view kind, Point center, double radius, const Stroke& stroke);
    // Adds a box without a border. Viewers show `hint` when the pointer is on the box.
    void box(std::string_view kind, const Rectangle& area, std::string_view color,
             std::string_view hint = {});
    // Adds a text. `at` is a point on its base line.
    void text(std::string_view kind, Point at, std::string_view text, const TextStyle& style);

    // Returns the document. Call it only once.
    std::string finish();

  private:
    std::string out_;
};

// Returns `text` with entities in place of the characters that XML reserves. Control characters,
// and all bytes above 127 of a text that is not valid UTF-8, become "?".
std::string xml_escaped(std::string_view text);

// Returns the width of `text` in Helvetica, plus a tenth, since other fonts are wider.
double text_width(std::string_view text, double size);

// Returns `text`, shortened in the middle with "..." when it is wider than `width`.
std::string elided(std::string_view text, double size, double width);

}  // namespace lm::plot
