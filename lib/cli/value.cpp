// SPDX-License-Identifier: Apache-2.0
#include "cli/value.hpp"

#include <initializer_list>
#include <utility>

#include "base/error.hpp"
#include "base/units.hpp"

namespace lm::cli {
namespace {

std::string with_largest_unit(i64 value, std::initializer_list<std::pair<i64, const char*>> units) {
    for (const auto& [factor, unit] : units) {
        if (value >= factor && value % factor == 0)
            return fmt::format("{}{}", value / factor, unit);
    }
    return fmt::format("{}{}", value, (units.end() - 1)->second);
}

// Throws Error(usage) when `text` has quotes around it, which a shell has passed on as a part of
// the value: "'0.1'", or an array that was written as one text.
void check_no_quotes(const std::string& name, const std::string& text) {
    if (text.size() < 2 || text.front() != text.back()) return;
    if (text.front() != '\'' && text.front() != '"') return;
    usage_error(name, "{} has quotes as a part of the value: remove them", text);
}

// Returns whether `text` is two numbers with '-' between them.
bool is_range(std::string_view text) {
    constexpr std::string_view digits = "0123456789";
    const size_t dash = text.find_first_not_of(digits);
    return dash != text.npos && dash > 0 && text[dash] == '-' && dash + 1 < text.size() &&
           text.find_first_not_of(digits, dash + 1) == text.npos;
}

}  // namespace

std::string text_of(const std::string& value) {
    return value;
}
std::string text_of(i64 value) {
    return fmt::format("{}", value);
}
std::string text_of(double value) {
    return fmt::format("{}", value);
}
std::string text_of(Bytes size) {
    return with_largest_unit(size.value, {{i64{1} << 40, "TiB"},
                                          {1'000'000'000'000, "TB"},
                                          {1 << 30, "GiB"},
                                          {1'000'000'000, "GB"},
                                          {1 << 20, "MiB"},
                                          {1'000'000, "MB"},
                                          {1024, "KiB"},
                                          {1, ""}});
}
std::string text_of(Duration time) {
    const i64 whole_s = static_cast<i64>(time.seconds);
    if (static_cast<double>(whole_s) != time.seconds) return fmt::format("{}s", time.seconds);
    return with_largest_unit(whole_s, {{86400, "d"}, {3600, "h"}, {60, "m"}, {1, "s"}});
}

void parse_value(const std::string&, const std::string& text, std::string& target) {
    target = text;
}
void parse_value(const std::string& name, const std::string& text, i64& target) {
    check_no_quotes(name, text);
    if (is_range(text)) usage_error(name, "'{}' is a range: expected one number", text);
    target = parse_count(name, text);
}
void parse_value(const std::string& name, const std::string& text, double& target) {
    check_no_quotes(name, text);
    target = parse_number(name, text);
}
void parse_value(const std::string& name, const std::string& text, Bytes& target) {
    target.value = parse_size(name, text);
    const bool has_unit = text.find_first_not_of("0123456789_.") != std::string::npos;
    // A number without a unit counts as bytes only if it is at least this large, because scripts
    // pass such numbers, but a person who writes 80 does not mean bytes.
    constexpr i64 meant_as_bytes = 1'000'000;
    if (target.value != 0 && target.value < meant_as_bytes && !has_unit)
        usage_error(name, "'{}' has no unit: write {}GB, {}GiB or {}B", text, text, text, text);
}
void parse_value(const std::string& name, const std::string& text, Duration& target) {
    target.seconds = parse_duration(name, text);
}

}  // namespace lm::cli
