// SPDX-License-Identifier: Apache-2.0
// The logs of one training: their order, and the lines that they have in common.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "metrics/log_parser.hpp"

namespace lm::metrics {

// The first logged iteration of a log.
struct FirstIteration {
    LoggedIteration line;
    std::optional<double> unix_time_s;
    bool is_json = false;      // a line of --log-json
    bool after_start = false;  // a line before it states a start or a loaded checkpoint
};

// The start of a log.
struct LogHead {
    std::string path;
    std::optional<double> time_s;         // its first time stamp (log_parser.hpp), Unix seconds
    std::optional<FirstIteration> first;  // its first logged iteration
};

// Reads a log up to its first time stamp and its first iteration.
LogHead read_head(const std::string& path);

// Returns the logs in the order of their first time stamps; when a log has no time stamp, in the
// order of their first iterations, with a warning. Keeps the given order when a log is standard
// input ("-"), and, with a warning, when one log has no time stamp and one log has no iteration.
// Calls read_head() for each log, except for standard input and when there is only one log.
std::vector<LogHead> in_order(const std::vector<std::string>& logs);

// Finds the lines that two logs of one training have in common. For example, one log is a copy of
// the other or of a part of it, or `tee` has written the same output to both. Keeps 8 to 24 bytes
// for each line of an iteration.
class LogOverlap {
  public:
    // Call before the first line of each log. `first` is nullopt when it is not known.
    void begin_log(const std::optional<FirstIteration>& first);

    // Returns whether an earlier log has this line, too. Call for each line with an iteration, an
    // event or an invalid iteration. An earlier log has the line if
    // - an iteration with a time stamp is in that log with this time, within a second;
    // - an iteration without a time stamp is in that log with the same text from "iteration" to the
    //   end of the line. A program that computes an iteration again may print the same text. So
    //   if this line follows a start or a loaded checkpoint, the line in that log must also follow
    //   a start or a loaded checkpoint. Otherwise no later iteration of this program without a
    //   time stamp is compared;
    // - one of the two lines is of --log-json, the other is a line of text without a time stamp,
    //   and both state the same iteration and the same loss, rounded as in text;
    // - an event follows an iteration that is in that log in the other form (JSON or text);
    // - an event with a time stamp is in that log with the same text at the same second;
    // - an event without a time stamp is in that log with the same text after the same iteration,
    //   or precedes the first iteration of its log, and this iteration is in that log.
    bool repeats(const LogLine& line, std::string_view text);

  private:
    // How an earlier log has an iteration: not at all; in a line of the same form (JSON or text);
    // in a line of the other form.
    enum class Match { none, same_form, other_form };
    Match match_of(const FirstIteration& iteration) const;
    Match match_of_time(const FirstIteration& iteration) const;
    bool has_line(u64 tag, u64 content, const FirstIteration& iteration) const;
    void keep(const FirstIteration& iteration);
    bool repeats_event(const LogLine& line, u64 content) const;
    bool has(u64 key) const;

    std::vector<u64> earlier_;    // keys of the lines of the earlier logs, sorted
    std::vector<u64> current_;    // keys of the lines of this log
    bool started_ = false;        // since the last iteration, a line states a start or a checkpoint
    bool new_run_ = false;        // the program of these lines wrote no line of an earlier log
    bool has_iteration_ = false;  // this log has had an iteration
    Match first_match_ = Match::none;  // how an earlier log has the first iteration
    Match last_match_ = Match::none;   // how an earlier log has the last iteration so far
    u64 previous_ = 0;                 // digest of the last iteration of this log
};

}  // namespace lm::metrics
