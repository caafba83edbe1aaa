// SPDX-License-Identifier: Apache-2.0
#include "spec/save_schedule.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/units.hpp"

namespace lm::spec {

std::vector<SaveRange> parse_save_schedule(const std::string& text) {
    constexpr std::string_view flag = "--save-schedule";
    std::vector<SaveRange> ranges;
    size_t begin = 0;
    while (begin <= text.size()) {
        const size_t end = std::min(text.find(',', begin), text.size());
        const std::string item = text.substr(begin, end - begin);
        begin = end + 1;
        if (!ranges.empty() && ranges.back().until == 0) {
            usage_error(flag, "'{}': only the last range may have no @end", text);
        }
        const size_t at = item.find('@');
        const std::string object = fmt::format("{}: '{}'", flag, item);
        SaveRange range{.interval = parse_count(object, item.substr(0, at)), .until = 0};
        if (at != std::string::npos) range.until = parse_count(object, item.substr(at + 1));
        const i64 previous = ranges.empty() ? 0 : ranges.back().until;
        if (range.interval < 1) usage_error(flag, "'{}': every interval must be at least 1", text);
        if (at != std::string::npos && range.until <= previous) {
            usage_error(flag, "'{}': the ends of the ranges must ascend", text);
        }
        ranges.push_back(range);
    }
    return ranges;
}

i64 count_saves(const std::vector<SaveRange>& ranges, i64 n_iterations) {
    i64 saves = 0;
    i64 last = 0;   // iteration of the last save so far
    i64 begin = 0;  // the range is (begin, end]
    for (const SaveRange& range : ranges) {
        const bool whole = range.until != 0 && range.until <= n_iterations;
        const i64 end = whole ? range.until : n_iterations;
        if (end <= begin) break;
        saves += end / range.interval - begin / range.interval;
        if (whole && end % range.interval != 0) ++saves;
        last = whole ? end : std::max(last, end / range.interval * range.interval);
        begin = end;
    }
    return last < n_iterations ? saves + 1 : saves;
}

std::vector<i64> save_iterations(const std::vector<SaveRange>& ranges, i64 start,
                                 i64 n_iterations) {
    std::vector<i64> saves;
    const auto add = [&](i64 iteration) {
        if (iteration > start && (saves.empty() || iteration > saves.back())) {
            saves.push_back(iteration);
        }
    };
    i64 begin = 0;
    for (const SaveRange& range : ranges) {
        const bool whole = range.until != 0 && range.until <= n_iterations;
        const i64 end = whole ? range.until : n_iterations;
        const i64 first = std::max(begin, start) / range.interval + 1;
        for (i64 k = first; k * range.interval <= end; ++k) add(k * range.interval);
        if (whole) add(end);
        begin = end;
    }
    add(n_iterations);
    return saves;
}

}  // namespace lm::spec
