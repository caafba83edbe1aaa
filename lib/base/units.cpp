// SPDX-License-Identifier: Apache-2.0
#include "base/units.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <ctime>
#include <limits>
#include <span>

#include "base/error.hpp"

namespace lm {
namespace {

using i128 = __int128;

struct Unit {
    std::string_view name;
    i64 factor;
};

constexpr i64 kilo = 1000;
constexpr i64 kibi = 1024;
constexpr i64 power(i64 base, int exponent) {
    return exponent == 0 ? 1 : base * power(base, exponent - 1);
}

constexpr auto count_units = std::to_array<Unit>({
    {"", 1},
    {"k", kilo},
    {"K", kilo},
    {"M", power(kilo, 2)},
    {"G", power(kilo, 3)},
    {"B", power(kilo, 3)},
    {"T", power(kilo, 4)},
});

constexpr auto size_units = std::to_array<Unit>({
    {"", 1},
    {"B", 1},
    {"k", kibi},
    {"K", kibi},
    {"M", power(kibi, 2)},
    {"G", power(kibi, 3)},
    {"T", power(kibi, 4)},
    {"P", power(kibi, 5)},
    {"KiB", kibi},
    {"MiB", power(kibi, 2)},
    {"GiB", power(kibi, 3)},
    {"TiB", power(kibi, 4)},
    {"PiB", power(kibi, 5)},
    {"kB", kilo},
    {"KB", kilo},
    {"MB", power(kilo, 2)},
    {"GB", power(kilo, 3)},
    {"TB", power(kilo, 4)},
    {"PB", power(kilo, 5)},
});

// The factors are in milliseconds, so that all are integers.
constexpr auto time_units = std::to_array<Unit>({
    {"ms", 1},
    {"", 1000},
    {"s", 1000},
    {"m", 60'000},
    {"h", 3'600'000},
    {"d", 86'400'000},
});

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

// Removes the leading digits of `text` and the single underscores between them. Returns the digits
// without underscores, or an empty text when `text` does not start with a digit.
std::string parse_digits(std::string_view& text) {
    std::string digits;
    while (!text.empty()) {
        const bool joint =
            text[0] == '_' && !digits.empty() && text.size() > 1 && is_digit(text[1]);
        if (!is_digit(text[0]) && !joint) break;
        if (!joint) digits.push_back(text[0]);
        text.remove_prefix(1);
    }
    return digits;
}

// An exact decimal number: digits / 10^scale.
struct Decimal {
    i128 digits = 0;
    int scale = 0;
};

struct Parser {
    std::string_view object;
    std::string_view text;      // as given, for messages
    std::string_view expected;  // the kind of value, with examples, for messages

    [[noreturn]] void not_a_value() const {
        usage_error(object, "'{}' is not a {}", text, expected);
    }
    [[noreturn]] void too_large() const {
        usage_error(object, "'{}' does not fit in 64 bits: give a smaller number", text);
    }

    // Parses the number at the front of `rest` and removes it from `rest`; the unit remains.
    Decimal decimal(std::string_view& rest) const {
        std::string digits = parse_digits(rest);
        if (digits.empty()) not_a_value();
        Decimal result;
        if (rest.starts_with('.')) {
            rest.remove_prefix(1);
            std::string fraction = parse_digits(rest);
            if (fraction.empty()) not_a_value();
            while (fraction.ends_with('0')) fraction.pop_back();
            result.scale = static_cast<int>(fraction.size());
            digits += fraction;
        }
        digits.erase(0, digits.find_first_not_of('0'));
        // The product of a number below 10^19 and a factor below 2^51 fits in 128 bits, and so does
        // 10^38, the largest power of 10 that whole() divides by.
        constexpr size_t max_digits = 19;
        constexpr int max_scale = 38;
        if (digits.size() > max_digits + static_cast<size_t>(result.scale)) too_large();
        if (digits.size() > max_digits || result.scale > max_scale) {
            usage_error(object,
                        "'{}' has too many digits: give at most {} significant digits and at most "
                        "{} decimals",
                        text, max_digits, max_scale);
        }
        for (char c : digits) result.digits = result.digits * 10 + (c - '0');
        return result;
    }

    i64 factor(std::string_view unit, std::span<const Unit> units) const {
        for (const Unit& candidate : units) {
            if (candidate.name == unit) return candidate.factor;
        }
        not_a_value();
    }

    // Returns the value in the base unit. Throws Error(usage) when this value is not a whole
    // number.
    i64 whole(std::span<const Unit> units) const {
        std::string_view rest = text;
        const Decimal number = decimal(rest);
        const i128 scaled = number.digits * factor(rest, units);
        i128 divisor = 1;
        for (int i = 0; i < number.scale; ++i) divisor *= 10;
        if (scaled % divisor != 0)
            usage_error(object, "'{}' is not a whole number: use fewer decimals or a smaller unit",
                        text);
        const i128 value = scaled / divisor;
        if (value > std::numeric_limits<i64>::max()) too_large();
        return static_cast<i64>(value);
    }
};

// Returns `value` with three significant digits: 1.35, 13.5, 135.
std::string three_figures(double value) {
    if (value < 9.995) return fmt::format("{:.2f}", value);
    if (value < 99.95) return fmt::format("{:.1f}", value);
    return fmt::format("{:.0f}", value);
}

std::string size_in(i64 bytes, double base, const std::array<std::string_view, 6>& names) {
    double value = std::abs(static_cast<double>(bytes));
    if (value < base) return fmt::format("{} B", bytes);
    size_t unit = 0;
    for (value /= base; value >= 999.5 && unit + 1 < names.size(); ++unit) value /= base;
    return fmt::format("{}{} {}", bytes < 0 ? "-" : "", three_figures(value), names[unit]);
}

}  // namespace

i64 parse_count(std::string_view object, std::string_view text) {
    return Parser{object, text, "count: give a whole number such as 12 or 5M"}.whole(count_units);
}

i64 parse_size(std::string_view object, std::string_view text) {
    return Parser{object, text, "size: give a number of bytes such as 512k, 2GiB or 80GB"}.whole(
        size_units);
}

double parse_duration(std::string_view object, std::string_view text) {
    const Parser parser{object, text, "duration: give a number such as 90s, 30m, 20h or 2d"};
    std::string_view rest = text;
    const Decimal number = parser.decimal(rest);
    const double milliseconds = static_cast<double>(number.digits) *
                                static_cast<double>(parser.factor(rest, time_units)) /
                                std::pow(10.0, number.scale);
    return milliseconds / 1000.0;
}

double parse_number(std::string_view object, std::string_view text) {
    const Parser parser{object, text, "number: give a value such as 0.1, 3e-4 or -2"};
    double value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc::result_out_of_range) {
        usage_error(object, "'{}' is out of the range of 64-bit floating-point numbers", text);
    }
    if (error != std::errc() || stop != end || !std::isfinite(value)) parser.not_a_value();
    return value;
}

std::string human_size(i64 bytes) {
    return size_in(bytes, 1024, {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"});
}

std::string decimal_size(i64 bytes) {
    return size_in(bytes, 1000, {"kB", "MB", "GB", "TB", "PB", "EB"});
}

std::string human_count(double count) {
    constexpr std::array<std::string_view, 5> names = {"", "k", "M", "B", "T"};
    if (!std::isfinite(count)) return fmt::format("{}", count);
    double value = std::abs(count);
    const std::string_view sign = count < 0 ? "-" : "";
    size_t unit = 0;
    for (; value >= 999.95 && unit + 1 < names.size(); ++unit) value /= 1000;
    if (unit == 0 && value == std::floor(value)) return fmt::format("{}{:.0f}", sign, value);
    return fmt::format("{}{:.1f}{}", sign, value, names[unit]);
}

std::string human_duration(double seconds) {
    if (!std::isfinite(seconds)) return "unknown";
    if (seconds < 0) return fmt::format("-{}", human_duration(-seconds));
    if (seconds < 0.9995) return fmt::format("{:.0f} ms", seconds * 1e3);
    if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
    if (seconds > 1e18) return fmt::format("{:.0e} d", seconds / 86400);  // beyond 64 bits
    const i64 total_s = std::llround(seconds);
    if (total_s < 3600) return fmt::format("{} min {:02} s", total_s / 60, total_s % 60);
    const i64 total_min = std::llround(seconds / 60);
    if (total_min < 24 * 60) return fmt::format("{} h {:02} min", total_min / 60, total_min % 60);
    const i64 total_h = std::llround(seconds / 3600);
    return fmt::format("{} d {:02} h", total_h / 24, total_h % 24);
}

std::string iso_time(i64 unix_seconds) {
    const std::time_t time = unix_seconds;
    std::tm parts{};
    if (!::gmtime_r(&time, &parts))
        run_error("time", "{} seconds since 1970 exceed the range of dates", unix_seconds);
    return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900,
                       parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

}  // namespace lm
