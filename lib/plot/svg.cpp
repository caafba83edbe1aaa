// SPDX-License-Identifier: Apache-2.0
#include "plot/svg.hpp"

#include <fmt/format.h>

#include <array>
#include <iterator>
#include <utility>
#include <vector>

#include "base/utf8.hpp"

namespace lm::plot {
namespace {

// Advance widths of the characters 32 to 126 in thousandths of the font size, from the metrics of
// Helvetica (Adobe Core 14 AFM files). Arial and Liberation Sans have the same widths.
constexpr std::array<int, 95> widths = {
    278,  278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278,  // space to /
    556,  556, 556, 556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556,  // 0 to ?
    1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778,  // @ to O
    667,  778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556,  // P to _
    333,  556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556,  // ` to o
    556,  556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584};      // p to ~

bool continues_character(char c) {
    return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

// Returns a length with at most two decimals: "12.5", "3".
std::string number(double value) {
    std::string text = fmt::format("{:.2f}", value);
    text.erase(text.find_last_not_of('0') + 1);
    if (text.ends_with('.')) text.pop_back();
    return text == "-0" ? "0" : text;
}

std::string attributes_of(const Stroke& stroke) {
    std::string text = fmt::format(R"( fill="none" stroke="{}" stroke-width="{}")", stroke.color,
                                   number(stroke.width));
    if (!stroke.dashes.empty()) text += fmt::format(R"( stroke-dasharray="{}")", stroke.dashes);
    if (stroke.opacity < 1) {
        text += fmt::format(R"( stroke-opacity="{}")", number(stroke.opacity));
    }
    return text;
}

}  // namespace

Svg::Svg(double width, double height, std::string_view title) {
    out_ = fmt::format(
        R"(<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" width="{0}pt" height="{1}pt" viewBox="0 0 {0} {1}" )"
        R"(font-family="Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif">
<title>{2}</title>
<rect class="page" width="{0}" height="{1}" fill="#ffffff"/>
)",
        number(width), number(height), xml_escaped(title));
}

void Svg::line(std::string_view kind, Point from, Point to, const Stroke& stroke) {
    fmt::format_to(std::back_inserter(out_),
                   R"(<line class="{}" x1="{}" y1="{}" x2="{}" y2="{}"{}/>)"
                   "\n",
                   kind, number(from.x), number(from.y), number(to.x), number(to.y),
                   attributes_of(stroke));
}

void Svg::polyline(std::string_view kind, std::span<const Point> points, const Stroke& stroke) {
    out_ += fmt::format(R"(<polyline class="{}" stroke-linejoin="round"{} points=")", kind,
                        attributes_of(stroke));
    for (size_t i = 0; i < points.size(); ++i) {
        if (i > 0) out_ += ' ';
        out_ += number(points[i].x) + "," + number(points[i].y);
    }
    out_ += "\"/>\n";
}

void Svg::dot(std::string_view kind, Point center, double radius, std::string_view color) {
    out_ += fmt::format(R"(<circle class="{}" cx="{}" cy="{}" r="{}" fill="{}"/>)", kind,
                        number(center.x), number(center.y), number(radius), color) +
            "\n";
}

void Svg::ring(std::string_view kind, Point center, double radius, const Stroke& stroke) {
    fmt::format_to(std::back_inserter(out_),
                   R"(<circle class="{}" cx="{}" cy="{}" r="{}"{}/>)"
                   "\n",
                   kind, number(center.x), number(center.y), number(radius), attributes_of(stroke));
}

void Svg::box(std::string_view kind, const Rectangle& area, std::string_view color,
              std::string_view hint) {
    out_ +=
        fmt::format(R"(<rect class="{}" x="{}" y="{}" width="{}" height="{}" fill="{}")", kind,
                    number(area.x), number(area.y), number(area.width), number(area.height), color);
    out_ += hint.empty() ? "/>\n" : fmt::format("><title>{}</title></rect>\n", xml_escaped(hint));
}

void Svg::text(std::string_view kind, Point at, std::string_view text, const TextStyle& style) {
    constexpr std::array<std::string_view, 3> anchors = {"start", "middle", "end"};
    out_ += fmt::format(R"(<text class="{}" x="{}" y="{}" font-size="{}" fill="{}")", kind,
                        number(at.x), number(at.y), number(style.size), style.color);
    if (style.anchor != Anchor::start) {
        out_ += fmt::format(R"( text-anchor="{}")", anchors[static_cast<size_t>(style.anchor)]);
    }
    if (style.bold) out_ += R"( font-weight="bold")";
    if (style.halo) out_ += R"( stroke="#ffffff" stroke-width="2" paint-order="stroke")";
    if (style.rotation != 0) {
        out_ += fmt::format(R"x( transform="rotate({} {} {})")x", number(style.rotation),
                            number(at.x), number(at.y));
    }
    out_ += ">" + xml_escaped(text) + "</text>\n";
}

std::string Svg::finish() {
    out_ += "</svg>\n";
    return std::move(out_);
}

std::string xml_escaped(std::string_view text) {
    const bool valid = is_valid_utf8(text);
    std::string out;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '&') {
            out += "&amp;";
        } else if (c == '<') {
            out += "&lt;";
        } else if (c == '>') {
            out += "&gt;";
        } else if (c == '"') {
            out += "&quot;";
        } else if (byte < 0x20 || byte == 0x7F || (byte >= 0x80 && !valid)) {
            out += '?';
        } else {
            out += c;
        }
    }
    return out;
}

double text_width(std::string_view text, double size) {
    int sum = 0;
    for (const char c : text) {
        if (continues_character(c)) continue;
        const bool known = c >= ' ' && c <= '~';
        sum += known ? widths[static_cast<size_t>(c - ' ')] : 600;
    }
    return 1.1 * sum * size / 1000;
}

std::string elided(std::string_view text, double size, double width) {
    if (text_width(text, size) <= width) return std::string(text);
    const auto next = [text](size_t at) {
        do ++at;
        while (at < text.size() && continues_character(text[at]));
        return at;
    };
    std::vector<size_t> starts;  // offsets of the characters
    for (size_t at = 0; at < text.size(); at = next(at)) starts.push_back(at);
    std::string best = "...";
    for (size_t n = 2; n < starts.size(); ++n) {  // n characters are kept
        const size_t tail = starts[starts.size() - n / 2];
        std::string shorter =
            fmt::format("{}...{}", text.substr(0, starts[n - n / 2]), text.substr(tail));
        if (text_width(shorter, size) > width) break;
        best = std::move(shorter);
    }
    return best;
}

}  // namespace lm::plot
