// SPDX-License-Identifier: Apache-2.0
#include "metrics/log_order.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "base/log.hpp"
#include "io/inputs.hpp"
#include "io/lines.hpp"
#include "metrics/log_line.hpp"

namespace lm::metrics {

std::optional<double> first_time_s(const std::string& path) {
    const std::unique_ptr<io::InputStream> stream = io::open_stream(path);
    std::optional<double> time_s;
    io::for_lines_while(*stream, [&time_s](std::string_view line) {
        time_s = time_of(read_log_line(line));
        return !time_s;
    });
    return time_s;
}

std::vector<std::string> in_time_order(const std::vector<std::string>& logs) {
    if (logs.size() < 2 || std::ranges::find(logs, "-") != logs.end()) return logs;
    std::vector<std::pair<double, std::string>> timed;
    for (const std::string& path : logs) {
        const std::optional<double> time_s = first_time_s(path);
        if (!time_s) {
            warn("{}: has no time stamps: the logs are read in the given order", path);
            return logs;
        }
        timed.emplace_back(*time_s, path);
    }
    std::ranges::stable_sort(timed, {}, &std::pair<double, std::string>::first);
    std::vector<std::string> ordered;
    for (auto& [time_s, path] : timed) ordered.push_back(std::move(path));
    if (ordered != logs)
        note("the logs are read in the order of time: {}", fmt::join(ordered, " "));
    return ordered;
}

}  // namespace lm::metrics
