// SPDX-License-Identifier: Apache-2.0
#include "metrics/log_overlap.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/hash.hpp"
#include "base/rng.hpp"

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

u64 key_of(Tag tag, u64 a, u64 b) {
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

bool states_start(const LogLine& line) {
    return line.kind == LogLine::Kind::start || line.kind == LogLine::Kind::loaded;
}

}  // namespace

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

LogOverlap::Match LogOverlap::match_of(const FirstIteration& iteration) const {
    using enum Match;
    const LoggedIteration& line = iteration.line;
    // A copy may lack the line that states the start.
    const auto has_line = [&](Tag tag, u64 content) {
        return has(key_of(tag, content, 1)) ||
               (!iteration.after_start && has(key_of(tag, content, 0)));
    };
    if (line.unix_time_s) {
        for (const double shift_s : {-1.0, 0.0, 1.0}) {
            const u64 second = second_of(*line.unix_time_s + shift_s);
            const auto n = static_cast<u64>(line.iteration);
            if (has(key_of(iteration.is_json ? json_at : text_at, n, second))) return same_form;
            if (has(key_of(iteration.is_json ? text_at : json_at, n, second))) return other_form;
        }
    } else if (has_line(stamped_text, line.digest)) {
        return same_form;
    }
    if (has_line(unstamped_text, line.digest)) return same_form;
    const bool is_compared = line.loss && (iteration.is_json || !line.unix_time_s);
    const Tag other = iteration.is_json ? loss_of_text : loss_of_json;
    return is_compared && has_line(other, printed_loss(line)) ? other_form : none;
}

bool LogOverlap::repeats_event(const LogLine& line, u64 content) const {
    const Match match = has_iteration_ ? last_match_ : first_match_;
    if (match == Match::other_form) return true;
    if (line.unix_time_s) return has(key_of(event_at, content, second_of(*line.unix_time_s)));
    if (!has_iteration_) return match != Match::none;
    return !new_run_ && has(key_of(event_after, content, previous_));
}

bool LogOverlap::repeats(const LogLine& line, std::string_view text) {
    if (line.kind != LogLine::Kind::iteration) {
        const u64 content = content_of(text);
        if (line.unix_time_s)
            current_.push_back(key_of(event_at, content, second_of(*line.unix_time_s)));
        if (has_iteration_) current_.push_back(key_of(event_after, content, previous_));
        started_ |= states_start(line);
        return repeats_event(line, content);
    }
    const FirstIteration iteration{line.iteration, text.starts_with('{'), started_};
    keep(iteration);
    const bool stamped = line.iteration.unix_time_s.has_value();
    if (started_) new_run_ = false;
    const Match match = stamped || !new_run_ ? match_of(iteration) : Match::none;
    if (started_) new_run_ = match == Match::none;
    started_ = false;
    has_iteration_ = true;
    last_match_ = match;
    previous_ = line.iteration.digest;
    return match != Match::none;
}

void LogOverlap::keep(const FirstIteration& iteration) {
    const LoggedIteration& line = iteration.line;
    const bool stamped = line.unix_time_s.has_value();
    const u64 started = iteration.after_start ? 1 : 0;
    current_.push_back(key_of(stamped ? stamped_text : unstamped_text, line.digest, started));
    if (stamped) {
        const u64 second = second_of(*line.unix_time_s);
        const Tag tag = iteration.is_json ? json_at : text_at;
        current_.push_back(key_of(tag, static_cast<u64>(line.iteration), second));
    }
    if (line.loss && (iteration.is_json || !stamped)) {
        const Tag tag = iteration.is_json ? loss_of_json : loss_of_text;
        current_.push_back(key_of(tag, printed_loss(line), started));
    }
}

}  // namespace lm::metrics
