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

namespace lm::metrics {
namespace {

std::vector<std::string> paths_of(const std::vector<LogHead>& heads) {
    std::vector<std::string> paths;
    for (const LogHead& head : heads) paths.push_back(head.path);
    return paths;
}

}  // namespace

LogHead read_head(const std::string& path) {
    LogHead head{.path = path};
    bool after_start = false;
    const std::unique_ptr<io::InputStream> stream = io::open_stream(path);
    io::for_lines_while(*stream, [&](std::string_view text) {
        const LogLine line = read_log_line(text);
        if (!head.time_s) head.time_s = time_of(line);
        after_start |= line.kind == LogLine::Kind::start || line.kind == LogLine::Kind::loaded;
        if (!head.first && line.kind == LogLine::Kind::iteration)
            head.first = {line.iteration, text.starts_with('{'), after_start};
        return !head.time_s || !head.first;
    });
    return head;
}

std::vector<LogHead> in_order(const std::vector<std::string>& logs) {
    std::vector<LogHead> heads;
    for (const std::string& path : logs) {
        const bool is_read = logs.size() > 1 && path != "-";
        heads.push_back(is_read ? read_head(path) : LogHead{.path = path});
    }
    if (logs.size() < 2 || std::ranges::find(logs, "-") != logs.end()) return heads;
    const auto unstamped =
        std::ranges::find_if(heads, [](const LogHead& head) { return !head.time_s; });
    if (unstamped == heads.end()) {
        std::ranges::stable_sort(heads, {}, [](const LogHead& head) { return *head.time_s; });
        if (paths_of(heads) != logs)
            note("the logs are read in the order of time: {}", fmt::join(paths_of(heads), " "));
        return heads;
    }
    const std::string name = unstamped->path;
    if (!std::ranges::all_of(heads, [](const LogHead& head) { return head.first.has_value(); })) {
        warn("{}: has no time stamps: the logs are read in the given order", name);
        return heads;
    }
    // If two logs have the same iterations, the log with time stamps is read first, because
    // LogOverlap skips the iterations of the later log.
    std::ranges::stable_sort(heads, {}, [](const LogHead& head) {
        return std::pair(head.first->line.iteration, !head.time_s);
    });
    warn("{}: has no time stamps: the logs are read in the order of their first iterations: {}",
         name, fmt::join(paths_of(heads), " "));
    return heads;
}

}  // namespace lm::metrics
