// SPDX-License-Identifier: Apache-2.0
#include "plot/axis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace lm::plot {
namespace {

// A range of positive length that contains the data.
struct Ends {
    double low = 0, high = 1;
};

Ends ends_of(const DataExtent& data) {
    if (data.empty()) return {};
    if (data.high() > data.low()) return {data.low(), data.high()};
    const double margin = data.low() == 0 ? 1 : 0.1 * std::abs(data.low());
    return {data.low() - margin, data.high() + margin};
}

struct Prefix {
    double factor;
    std::string_view letter;
};

// Returns the unit (k, M, B, T) of the labels of an axis up to `largest`; none below 10,000.
Prefix prefix_of(double largest) {
    if (largest >= 1e12) return {1e12, "T"};
    if (largest >= 1e9) return {1e9, "B"};
    if (largest >= 1e6) return {1e6, "M"};
    if (largest >= 1e4) return {1e3, "k"};
    return {1, ""};
}

// Returns the number of digits after the decimal point that distinguish multiples of `step`.
int decimals_of(double step) {
    int decimals = 0;
    while (decimals < 9 && std::abs(step - std::round(step)) > 1e-6 * step) {
        step *= 10;
        ++decimals;
    }
    return decimals;
}

}  // namespace

void DataExtent::add(double value) {
    if (!std::isfinite(value)) return;
    if (empty()) {
        low_ = high_ = value;
    } else {
        low_ = std::min(low_, value);
        high_ = std::max(high_, value);
    }
}

double round_step(double span, int most) {
    const double least = span / most;
    const double power = std::pow(10, std::floor(std::log10(least)));
    for (const double factor : {1.0, 2.0, 2.5, 5.0}) {
        if (factor * power >= least * (1 - 1e-9)) return factor * power;
    }
    return 10 * power;
}

Axis Axis::linear(const DataExtent& data, double begin, double end, int most) {
    const Ends ends = ends_of(data);
    const double step = round_step(ends.high - ends.low, most);
    DataExtent rounded;
    rounded.add(step * std::floor(ends.low / step + 1e-9));
    rounded.add(step * std::ceil(ends.high / step - 1e-9));
    return tight(rounded, begin, end, most + 1);
}

Axis Axis::tight(const DataExtent& data, double begin, double end, int most) {
    Axis axis;
    const Ends ends = ends_of(data);
    axis.low_ = ends.low;
    axis.high_ = ends.high;
    axis.begin_ = begin;
    axis.end_ = end;
    axis.add_ticks(round_step(ends.high - ends.low, most));
    return axis;
}

Axis Axis::logarithmic(const DataExtent& data, double begin, double end, int most) {
    Axis axis;
    Ends ends = ends_of(data);
    if (data.empty() || !(data.high() > data.low())) {
        ends = {0.5 * (data.empty() ? 1 : data.low()), 2 * (data.empty() ? 1 : data.low())};
    }
    axis.log_ = true;
    axis.low_ = std::log10(ends.low);
    axis.high_ = std::log10(ends.high);
    axis.begin_ = begin;
    axis.end_ = end;
    axis.add_log_ticks(most);
    return axis;
}

double Axis::at(double value) const {
    const double x = log_ ? std::log10(value) : value;
    return begin_ + (end_ - begin_) * (x - low_) / (high_ - low_);
}

void Axis::add_ticks(double step) {
    const double largest = std::max(std::abs(low_), std::abs(high_));
    Prefix prefix = prefix_of(largest);
    if (largest < 1e-3) {
        exponent_ = static_cast<int>(std::floor(std::log10(largest)));
        prefix = {std::pow(10, exponent_), ""};
    }
    const int decimals = decimals_of(step / prefix.factor);
    const double first = std::ceil(low_ / step - 1e-6);
    const double last = std::floor(high_ / step + 1e-6);
    constexpr double most_ticks = 100;
    for (double i = first; i <= std::min(last, first + most_ticks); ++i) {
        const double value = i * step;
        ticks_.push_back({value, i == 0 ? "0"
                                        : fmt::format("{:.{}f}{}", value / prefix.factor, decimals,
                                                      prefix.letter)});
    }
}

// Adds ticks at powers of ten, but only at every n-th power when the axis would have more than
// `most` intervals. When there are fewer than three powers, adds ticks at 2 and 5 times each power,
// too.
void Axis::add_log_ticks(int most) {
    const double decades = std::floor(high_ + 1e-9) - std::ceil(low_ - 1e-9);
    const double every = std::max(1.0, std::ceil(decades / most));
    const bool fine = decades < 2;
    for (double power = std::floor(low_); power <= high_ + 1e-9; power += fine ? 1 : every) {
        for (const double factor : {1.0, 2.0, 5.0}) {
            const double value = factor * std::pow(10, power);
            const double x = std::log10(value);
            const bool inside = x >= low_ - 1e-9 && x <= high_ + 1e-9;
            if (inside && (fine || factor == 1)) {
                ticks_.push_back({value, fmt::format("{:.6g}", value)});
            }
        }
    }
}

std::string power_of_ten(int exponent) {
    if (exponent == 0) return "";
    constexpr std::array<std::string_view, 10> digits = {"⁰", "¹", "²", "³", "⁴",
                                                         "⁵", "⁶", "⁷", "⁸", "⁹"};
    std::string text = " (×10";
    for (const char c : fmt::format("{}", exponent)) {
        text += c == '-' ? "⁻" : digits[static_cast<size_t>(c - '0')];
    }
    return text + ")";
}

}  // namespace lm::plot
