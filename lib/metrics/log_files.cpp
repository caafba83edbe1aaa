// SPDX-License-Identifier: Apache-2.0
#include "metrics/log_files.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "base/hash.hpp"
#include "base/log.hpp"
#include "base/rng.hpp"
#include "io/inputs.hpp"
#include "io/lines.hpp"

namespace lm::metrics {
namespace {

// The kinds of keys.
enum Tag : u64 {
    json_at,         // line of --log-json: iteration number and second
    text_at,         // line of text: iteration number and second
    stamped_text,    // iteration with a time stamp: its text, and whether it follows a start
    unstamped_text,  // iteration without a time stamp: its text, and whether it follows a start
    loss_of_json,    // line of --log-json: iteration and loss, and whether it follows a start
    loss_of_text,  // line of text without a time stamp: iteration, loss, whether it follows a start
    event_at,      // event: its text and second
    event_after    // event: its text, and the digest of the previous iteration
};

u64 key_of(u64 tag, u64 a, u64 b) {
    return mix(mix(tag, a), b);
}

// Returns the second of a time stamp as a part of a key.
u64 second_of(double unix_time_s) {
    return static_cast<u64>(static_cast<i64>(std::floor(unix_time_s)));
}

// Returns the hash of an event's text, without the time stamp of --log-file before it.
u64 content_of(std::string_view text) {
    if (text.starts_with("20")) text.remove_prefix(std::min(text.find(' '), text.size()));
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    return hash64(text);
}

// Returns the hash of an iteration's number and loss. The loss has as many digits as in a line of
// text.
u64 printed_loss(const LoggedIteration& line) {
    return hash64(fmt::format("{} {:.6E}", line.iteration, *line.loss));
}

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
        const LogLine line = parse_log_line(text);
        if (!head.time_s) head.time_s = line.unix_time_s;
        after_start |= line.starts();
        if (const LoggedIteration* first = line.iteration(); first && !head.first)
            head.first = {*first, line.unix_time_s, text.starts_with('{'), after_start};
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

void LogOverlap::begin_log(const std::optional<FirstIteration>& first) {
    earlier_.insert(earlier_.end(), current_.begin(), current_.end());
    current_.clear();
    std::ranges::sort(earlier_);
    started_ = new_run_ = has_iteration_ = false;
    previous_ = 0;
    first_match_ = first ? match_of(*first) : Match::none;
}

bool LogOverlap::has(u64 key) const {
    return std::ranges::binary_search(earlier_, key);
}

// Returns whether an earlier log has this key in a line after a start, or, as a copy may lack the
// line that states the start, in any line if no start precedes `iteration`.
bool LogOverlap::has_line(u64 tag, u64 content, const FirstIteration& iteration) const {
    return has(key_of(tag, content, 1)) || (!iteration.after_start && has(key_of(tag, content, 0)));
}

LogOverlap::Match LogOverlap::match_of_time(const FirstIteration& iteration) const {
    const auto n = static_cast<u64>(iteration.line.iteration);
    for (const double shift_s : {-1.0, 0.0, 1.0}) {
        const u64 second = second_of(*iteration.unix_time_s + shift_s);
        if (has(key_of(iteration.is_json ? json_at : text_at, n, second))) return Match::same_form;
        if (has(key_of(iteration.is_json ? text_at : json_at, n, second))) return Match::other_form;
    }
    return Match::none;
}

LogOverlap::Match LogOverlap::match_of(const FirstIteration& iteration) const {
    const LoggedIteration& line = iteration.line;
    if (iteration.unix_time_s) {
        const Match match = match_of_time(iteration);
        if (match != Match::none) return match;
    } else if (has_line(stamped_text, line.digest, iteration)) {
        return Match::same_form;
    }
    if (has_line(unstamped_text, line.digest, iteration)) return Match::same_form;
    const bool is_compared = line.loss && (iteration.is_json || !iteration.unix_time_s);
    const Tag other = iteration.is_json ? loss_of_text : loss_of_json;
    return is_compared && has_line(other, printed_loss(line), iteration) ? Match::other_form
                                                                         : Match::none;
}

bool LogOverlap::repeats_event(const LogLine& line, u64 content) const {
    const Match match = has_iteration_ ? last_match_ : first_match_;
    if (match == Match::other_form) return true;
    if (line.unix_time_s) return has(key_of(event_at, content, second_of(*line.unix_time_s)));
    if (!has_iteration_) return match != Match::none;
    return !new_run_ && has(key_of(event_after, content, previous_));
}

bool LogOverlap::repeats(const LogLine& line, std::string_view text) {
    const LoggedIteration* const logged = line.iteration();
    if (!logged) {
        const u64 content = content_of(text);
        if (line.unix_time_s)
            current_.push_back(key_of(event_at, content, second_of(*line.unix_time_s)));
        if (has_iteration_) current_.push_back(key_of(event_after, content, previous_));
        started_ |= line.starts();
        return repeats_event(line, content);
    }
    const FirstIteration iteration{*logged, line.unix_time_s, text.starts_with('{'), started_};
    keep(iteration);
    if (started_) new_run_ = false;
    const Match match = line.unix_time_s || !new_run_ ? match_of(iteration) : Match::none;
    if (started_) new_run_ = match == Match::none;
    started_ = false;
    has_iteration_ = true;
    last_match_ = match;
    previous_ = logged->digest;
    return match != Match::none;
}

void LogOverlap::keep(const FirstIteration& iteration) {
    const LoggedIteration& line = iteration.line;
    const bool stamped = iteration.unix_time_s.has_value();
    const u64 started = iteration.after_start ? 1 : 0;
    current_.push_back(key_of(stamped ? stamped_text : unstamped_text, line.digest, started));
    if (stamped) {
        const u64 second = second_of(*iteration.unix_time_s);
        const Tag tag = iteration.is_json ? json_at : text_at;
        current_.push_back(key_of(tag, static_cast<u64>(line.iteration), second));
    }
    if (line.loss && (iteration.is_json || !stamped)) {
        const Tag tag = iteration.is_json ? loss_of_json : loss_of_text;
        current_.push_back(key_of(tag, printed_loss(line), started));
    }
}

}  // namespace lm::metrics
