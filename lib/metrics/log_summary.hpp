// SPDX-License-Identifier: Apache-2.0
// Summarizes the log of a training: its progress, its speed, and where it stopped and resumed.
// Reads each line once. The memory does not grow with the number of lines.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include "metrics/log_line.hpp"
#include "metrics/log_overlap.hpp"
#include "metrics/step_fit.hpp"
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

// Sums over computed iterations.
struct LogSums {
    i64 iterations = 0;
    double samples = 0, tokens = 0;
    double step_s = 0;
    // The FLOPs and seconds of the iterations whose line states FLOP/s.
    double flops = 0, flops_s = 0;
    double mean_batch() const { return samples / static_cast<double>(iterations); }
    double mean_step_s() const { return step_s / static_cast<double>(iterations); }
};

class LogSummary {
  public:
    struct Settings {
        i64 window = 100;          // largest number of lines that recent() sums
        double least_gap_s = 600;  // shorter gaps are not stops
    };
    explicit LogSummary(const Settings& settings) : settings_(settings) {}

    // add() calls this function for each logged iteration that is not a duplicate, in the order of
    // the log. The line reports the iterations after `before`. `first_of_run`: the program has
    // started, or the training has returned to an older checkpoint, since the previous line. The
    // previous lines for iterations after `before` are then invalid.
    using Observer =
        std::function<void(const LoggedIteration& line, i64 before, bool first_of_run)>;
    void observe(Observer function) { observer_ = std::move(function); }

    // Call before the first of several logs. add() then skips lines that an earlier log has, too.
    void skip_overlaps() { overlap_.emplace(); }
    // Call before the first line of each log. `first`: the first logged iteration of the log, if
    // known.
    void begin_file(const std::optional<FirstIteration>& first = {});
    void add(std::string_view line);
    // Call after the last line, before any getter.
    void finish();

    i64 n_lines() const { return n_lines_; }
    i64 n_logged() const {
        return n_logged_;
    }  // valid lines of iterations, including repeated lines
    i64 n_invalid() const { return n_invalid_; }    // iteration lines without valid fields
    i64 n_repeated() const { return n_repeated_; }  // skipped lines that another rank logged, too
    i64 n_overlapping() const {
        return n_overlapping_;
    }  // skipped lines that an earlier log covers
    // Returns the number of logs that begin after a pause of least_gap_s, and do not state when
    // their program started. The mean time of the restarts that the log states counts as
    // restarting, and the rest of such a pause as waiting for a job.
    i64 n_unseen_starts() const { return n_unseen_starts_; }
    // Returns the number of logs that continue the iterations of the previous log, when no time
    // stamps show whether the program was restarted between the two logs. No restart is counted.
    i64 n_unclear_logs() const { return n_unclear_logs_; }
    bool empty() const { return !last_; }
    // Returns the newest logged iteration. Requires !empty().
    const LoggedIteration& last() const { return *last_; }
    const std::optional<LoggedRamp>& ramp() const { return ramp_; }
    std::optional<double> tokens_per_sample() const { return tokens_per_sample_; }

    // Returns the sums over all work that the machine did, including iterations that were computed
    // twice, and iterations between the last line of a run and its stop, for which the values of
    // that line are assumed.
    const LogSums& sums() const { return sums_; }
    // Returns the sums over the last lines with the current batch size, at most Settings::window
    // lines. Omits the first line of a run, in which the program warms up, unless there are no
    // other lines.
    LogSums recent() const;
    const StepFit& fit() const { return fit_; }

    // stops() returns the newest stops, at most max_stops. n_stops() counts all stops.
    static constexpr size_t max_stops = 1000;
    const std::deque<LogStop>& stops() const { return stops_; }
    i64 n_stops() const { return n_stops_; }
    i64 n_restarts() const;
    i64 repeated_iterations() const { return repeated_iterations_; }
    double repeated_s() const { return repeated_s_; }
    // Returns the time between the first and the last time stamp; nullopt with fewer than two
    // stamps.
    std::optional<double> wall_s() const;
    // Returns the time at which the last iteration ended (unix time): the last time stamp plus the
    // time of the iterations after this stamp; nullopt when the log has no time stamp.
    std::optional<double> last_time_s() const { return clock_; }
    // Returns the number of iterations from one log line to the next.
    i64 interval() const { return interval_; }
    // Returns how the training used its time.
    TimeUse time_use() const { return account_.use(); }
    // Returns the number of nodes of the newest job; 0 when the log does not state it.
    i64 n_nodes() const { return n_nodes_; }
    // Returns the part of wall_s() in which no iteration was computed.
    double missing_s() const { return std::max(0.0, missing_s_ + missing_now_s_); }

  private:
    struct Recent {
        LogSums sums;
        bool first_of_run = false;
    };
    void add(const LoggedIteration& line);
    bool skips(const LogLine& line, std::string_view text);
    void add_gap_before(double gap_s, bool first_of_run);
    void add_unseen_start(double gap_s);
    bool is_repeated(const LoggedIteration& line) const;
    void add_iteration(LoggedIteration line);
    void add_sums(const LoggedIteration& line, i64 n, bool first_of_run);
    // Sets the clock to `now`. Returns the time since the previous value of the clock.
    double follow_clock(double now);
    bool starts_file(const LoggedIteration& line) const;
    void add_event(const LogLine& line);
    void add_unlogged(i64 iteration);
    void add_running_gap(double gap_s, double saved_s, std::optional<double> evaluation_s);
    void forget_unstamped();
    void find_stop(bool first_of_run, bool unseen_start, i64 before);
    void keep(const LogStop& stop);

    Settings settings_;
    Observer observer_;
    i64 n_lines_ = 0, n_logged_ = 0, n_invalid_ = 0, n_repeated_ = 0;
    // The first line, which is kept until the second line shows how many iterations a line reports.
    std::optional<LoggedIteration> first_;
    std::optional<LoggedIteration> last_;
    std::optional<LoggedRamp> ramp_;
    std::optional<double> tokens_per_sample_;
    LogSums sums_;
    std::deque<Recent> recent_;
    std::deque<size_t> digests_;  // digests of the last lines
    StepFit fit_;
    i64 interval_ = 1;  // iterations between two lines
    // Events since the last logged iteration: a start, a loaded checkpoint, seconds without
    // iterations.
    bool started_ = false;
    i64 n_starts_ = 0;  // lines that state a start
    std::optional<i64> loaded_;
    double missing_now_s_ = 0;
    // The time of a running program since the last logged iteration, in which unlogged iterations
    // may have been computed.
    double running_now_s_ = 0;
    // reached_: the last iteration that was computed before the current run, or in it. run_at_: the
    // last iteration that the current run has loaded, logged, or stated at its stop; empty before
    // the first start and the first iteration.
    // early_: computed iterations before the first logged one. stopped_: unlogged iterations were
    // added since the last logged one, so the next line is of another run.
    i64 reached_ = 0, early_ = 0;
    std::optional<i64> run_at_;
    bool stopped_ = false;
    // clock_: the last time stamp plus the time of the steps since then. first_clock_: the first
    // time stamp.
    std::optional<double> clock_, first_clock_;
    TimeAccount account_;
    TimeAccount::Phase phase_ = TimeAccount::Phase::running;
    // Values from lines without a time stamp since the last stamp: whether an evaluation ended
    // (evaluated_after_first_: after `first_`), and the seconds of saves.
    bool evaluated_ = false, evaluated_after_first_ = false;
    double unstamped_save_s_ = 0;
    bool new_file_ = false;  // since the last iteration, a log has begun
    bool silent_ = false;    // since this log has begun, no line had a time stamp
    std::optional<LogOverlap> overlap_;
    i64 n_overlapping_ = 0, n_unseen_starts_ = 0, n_unclear_logs_ = 0;
    // The restarts whose start the log states: their number, their time, and the time of the
    // restart that has not reached an iteration yet.
    i64 n_timed_starts_ = 0;
    double timed_starts_s_ = 0, starting_now_s_ = 0;
    i64 n_nodes_ = 0;
    bool stamped_ = false;     // more than one stamp was seen
    bool has_starts_ = false;  // the log states each start
    std::deque<LogStop> stops_;
    i64 n_stops_ = 0, n_restarts_ = 0, repeated_iterations_ = 0;
    double repeated_s_ = 0, missing_s_ = 0;
};

}  // namespace lm::metrics
