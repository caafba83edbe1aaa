// SPDX-License-Identifier: Apache-2.0
// Finds the lines that two logs of one training have in common: a copy of a log, a part of it, or
// the file of `tee` next to that of the job. Keeps 16 to 24 bytes for each line of an iteration.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "metrics/log_line.hpp"

namespace lm::metrics {

// The first logged iteration of a log.
struct FirstIteration {
    LoggedIteration line;
    bool is_json = false;      // a line of --log-json
    bool after_start = false;  // a line before it states a start or a loaded checkpoint
};

class LogOverlap {
  public:
    // Call before the first line of each log. `first` is nullopt when it is not known.
    void begin_log(const std::optional<FirstIteration>& first);

    // Returns whether an earlier log has this line. Call for each line with an iteration, an event
    // or an invalid iteration.
    // - An iteration with a time stamp: the earlier log has the iteration at this time, within a
    //   second.
    // - An iteration without one: the earlier log has the same text from "iteration" to the end of
    //   the line. A program that computes an iteration again may print the same text. So if the
    //   line follows a start or a loaded checkpoint, the line of the earlier log must do so, too;
    //   otherwise the lines of this run are not compared.
    // - A line of --log-json and a line of text without a time stamp: the same iteration with the
    //   same loss, as text prints it.
    // - An event after an iteration that the earlier log has in the other form, JSON or text: yes.
    // - An event with a time stamp: the same text at the same second.
    // - An event without one: the same text after the same iteration; before the first iteration of
    //   a log, when the earlier log has this first iteration.
    bool repeats(const LogLine& line, std::string_view text);

  private:
    // How an earlier log has an iteration: not; in the same form of line; in the other form.
    enum class Match { none, same_form, other_form };
    Match match_of(const FirstIteration& iteration) const;
    void keep(const FirstIteration& iteration);
    bool repeats_event(const LogLine& line, u64 content) const;
    bool has(u64 key) const;

    std::vector<u64> earlier_;  // keys of the lines of the earlier logs, sorted
    std::vector<u64> current_;  // keys of the lines of this log
    bool started_ = false;      // since the last iteration, a line states a start or a checkpoint
    bool new_run_ = false;      // the program that writes these lines wrote none of an earlier log
    bool has_iteration_ = false;       // this log has had an iteration
    Match first_match_ = Match::none;  // how an earlier log has the first iteration
    Match last_match_ = Match::none;   // the same for the last iteration so far
    u64 previous_ = 0;                 // digest of the last iteration of this log
};

}  // namespace lm::metrics
