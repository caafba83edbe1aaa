// SPDX-License-Identifier: Apache-2.0
#include "config/skip_ranges.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/units.hpp"

namespace lm::config {
namespace {

IterationRange parse_range(std::string_view option, std::string_view text) {
    const size_t dash = text.find('-');
    if (dash == text.npos) usage_error(option, "expected a range A-B, got '{}'", text);
    const std::string object = fmt::format("{}: '{}'", option, text);
    const IterationRange range{parse_count(object, text.substr(0, dash)),
                               parse_count(object, text.substr(dash + 1))};
    if (range.first < 1 || range.last < range.first) {
        usage_error(option, "'{}' is not a range A-B of iterations: expected 1 <= A <= B", text);
    }
    return range;
}

}  // namespace

std::vector<IterationRange> parse_skip_ranges(const std::vector<std::string>& texts,
                                              const std::vector<i64>& iterations) {
    std::vector<IterationRange> ranges;
    for (const std::string& text : texts) {
        ranges.push_back(parse_range("--skip-train-iteration-range", text));
    }
    for (const i64 n : iterations) {
        if (n < 1) usage_error("--iterations-to-skip", "iterations count from 1, got {}", n);
        ranges.push_back({n, n, false});
    }
    std::sort(ranges.begin(), ranges.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<IterationRange> joined;
    for (const IterationRange& range : ranges) {
        if (!joined.empty() && range.first <= joined.back().last + 1 &&
            range.rate_advances == joined.back().rate_advances) {
            joined.back().last = std::max(joined.back().last, range.last);
        } else {
            joined.push_back(range);
        }
    }
    return joined;
}

}  // namespace lm::config
