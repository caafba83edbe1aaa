// SPDX-License-Identifier: Apache-2.0
// Summarizes the logs of a training: its progress, its speed, and where it stopped and resumed.
//
// The lines are parsed to events (log_parser.hpp) and cut into segments: a segment is a logged
// iteration and the events before it, back to the previous logged iteration. Each segment is summed
// as a whole, when its iteration arrives, so that the state between its events (a program starts, a
// checkpoint was loaded, saves of unknown time, ...) is local to that sum. The sums of the segments
// are added up at once, and only the events of the last segment are kept: the memory does not grow
// with the number of iterations, and a log can be followed while it grows.
//
// A whole run from its start to its stop would be the more natural segment. It was not chosen,
// because a run may have millions of iterations.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "metrics/log_files.hpp"
#include "metrics/log_parser.hpp"
#include "metrics/log_rates.hpp"
#include "metrics/time_account.hpp"

namespace lm::metrics {

// A restart, or a gap in time, between two logged iterations.
struct LogStop {
    bool restarted = false;  // false: a gap in time, or a rollback, within a run
    i64 last_iteration = 0;  // last logged iteration before the stop
    i64 last_computed = 0;   // last_iteration, or a later iteration that the log states in an event
    i64 resumed_after = 0;   // iteration of the loaded checkpoint. If the log does not state it:
                             // last_iteration, or an estimate when the iterations went back
    double repeated_s = 0;   // time of iterations that were computed twice
    std::optional<double> missing_s;    // time in which no iteration was computed
    std::optional<double> unix_time_s;  // end of the stop
    i64 repeated() const {
        return last_computed > resumed_after ? last_computed - resumed_after : 0;
    }
};

struct LogStops {
    static constexpr size_t max_stops = 1000;
    std::deque<LogStop> newest;  // at most max_stops
    i64 n_stops = 0;             // all of them
    i64 n_restarts = 0;
    i64 repeated_iterations = 0;
    double repeated_s = 0;
    // The number of logs that begin after a pause of least_gap_s, and do not state when their
    // program started. The mean time of the restarts that the log states counts as restarting, and
    // the rest of such a pause as waiting for a job.
    i64 n_unseen_starts = 0;
    // The number of logs that continue the iterations of the previous log, when no time stamps show
    // whether the program was restarted between the two logs. No restart is counted.
    i64 n_unclear_logs = 0;
};

struct LineCounts {
    i64 lines = 0;
    i64 logged = 0;       // valid lines of iterations, including repeated lines
    i64 invalid = 0;      // lines of iterations without valid fields
    i64 repeated = 0;     // skipped lines that another rank logged, too
    i64 overlapping = 0;  // skipped lines that an earlier log has, too
};

struct LogSummary {
    explicit LogSummary(i64 window) : rates(window) {}
    LineCounts lines;
    std::optional<LoggedIteration> last;  // newest logged iteration; nullopt: the log has none
    std::optional<LoggedRamp> ramp;
    LogRates rates;
    LogStops stops;
    TimeUse time_use;  // how the training used its time
    i64 interval = 1;  // number of iterations from one log line to the next
    i64 n_nodes = 0;   // nodes of the newest job; 0: not stated
    // Time between the first and the last time stamp; nullopt with fewer than two stamps.
    std::optional<double> wall_s;
    double missing_s = 0;  // the part of wall_s in which no iteration was computed
    // Time at which the last iteration ended (unix time): the last time stamp plus the time of the
    // iterations after this stamp; nullopt when the log has no time stamp.
    std::optional<double> last_time_s;

    bool empty() const { return !last; }
};

struct LogSettings {
    i64 window = 100;          // largest number of lines in the recent rates
    double least_gap_s = 600;  // shorter gaps are not stops
};

// The time of a log: the last time stamp plus the time of the steps since then.
class LogClock {
  public:
    const std::optional<double>& now() const { return now_; }
    // Sets the clock to a time stamp. Returns the time since the previous value of the clock.
    double advance_to(double stamp_s);
    // Adds the time of steps without a time stamp.
    void add(double seconds);
    // Returns whether more than one stamp was seen.
    bool has_two_stamps() const { return has_two_stamps_; }
    std::optional<double> wall_s() const;

    double unstamped_save_s = 0;  // seconds of the saves since the last stamp whose lines have none

  private:
    std::optional<double> first_, now_;
    bool has_two_stamps_ = false;
};

// An event of a log and its time. No event: a log begins.
struct TimedEvent {
    std::optional<LogEvent> event;
    std::optional<double> unix_time_s;
    bool is_first_stamp = false;  // no earlier line of the log has a time stamp
};

struct TimedIteration {
    LoggedIteration line;
    std::optional<double> unix_time_s;
    bool is_first_stamp = false;
};

// The sums of all segments so far.
struct LogTotals {
    LogSummary log;  // without the time
    LogClock clock;
    TimeAccount account;
    bool has_starts = false;  // the log states each start
    // The restarts whose start the log states: their number and their time.
    i64 n_timed_starts = 0;
    double timed_starts_s = 0;
};

class LogReader {
  public:
    // add() calls this function for each logged iteration that is not a duplicate, in the order of
    // the log. The line reports the iterations after `before`. `first_of_run`: the program has
    // started, or the training has returned to an older checkpoint, since the previous line. The
    // previous lines for iterations after `before` are then invalid.
    using Observer =
        std::function<void(const LoggedIteration& line, i64 before, bool first_of_run)>;

    explicit LogReader(const LogSettings& settings = {}) : settings_(settings) {}
    void observe(Observer function) { observer_ = std::move(function); }
    // Call before the first of several logs. add() then skips lines that an earlier log has, too.
    void skip_overlaps() { overlap_.emplace(); }
    // Call before the first line of each log. `first`: the first logged iteration of the log, if
    // known.
    void begin_log(const std::optional<FirstIteration>& first = {});
    void add(std::string_view line);
    // Call after the last line of the last log if observe() was called.
    void finish();
    // Returns the summary of the lines so far. More lines may follow.
    LogSummary summary() const;

  private:
    void add_iteration(const LoggedIteration& line, std::optional<double> unix_time_s);
    bool skips(const LogLine& line, std::string_view text);
    bool is_past(const LogLine& line) const;
    bool is_first_stamp(std::optional<double> unix_time_s);
    bool is_repeated(const LoggedIteration& line) const;
    const LoggedIteration* latest() const;

    LogSettings settings_;
    Observer observer_;
    std::optional<LogOverlap> overlap_;
    LogTotals totals_{LogSummary(settings_.window)};
    std::vector<TimedEvent> events_;  // of the last segment
    // The first segment, which is kept until the second iteration shows how many iterations a line
    // reports.
    std::optional<TimedIteration> first_;
    std::vector<TimedEvent> before_first_;
    std::deque<size_t> digests_;      // of the last lines of iterations
    bool is_stamped_ = true;          // a line of this log had a time stamp
    std::optional<double> newest_s_;  // the newest time stamp of all logs
};

}  // namespace lm::metrics
