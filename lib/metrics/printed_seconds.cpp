// SPDX-License-Identifier: Apache-2.0
#include "metrics/printed_seconds.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace lm::metrics {
namespace {

std::optional<double> number_of(std::string_view text) {
    double value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (text.empty() || error != std::errc{} || stop != end) return std::nullopt;
    return value;
}

}  // namespace

std::optional<double> printed_seconds(std::string_view text) {
    constexpr std::pair<std::string_view, double> units[] = {
        {" ms", 1e-3}, {" us", 1e-6}, {" min", 60}, {" s", 1}, {" h", 3600}, {" d", 86400}};
    std::optional<double> seconds;
    while (!text.empty()) {
        const size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
        const auto value = number_of(text.substr(0, digits));
        text.remove_prefix(digits);
        const auto* unit = std::ranges::find_if(
            units, [text](const auto& u) { return text.starts_with(u.first); });
        if (!value || unit == std::end(units)) break;
        seconds = seconds.value_or(0) + *value * unit->second;
        text.remove_prefix(unit->first.size());
        if (!text.starts_with(' ')) break;
        text.remove_prefix(1);
    }
    return seconds;
}

}  // namespace lm::metrics
