// SPDX-License-Identifier: Apache-2.0
#include "metrics/log_summary.hpp"

#include <algorithm>
#include <utility>

#include "base/types.hpp"

namespace lm::metrics {

double LogClock::advance_to(double stamp_s) {
    if (!first_) first_ = stamp_s;
    // The clocks of several hosts differ a little, so an earlier time does not set the clock back.
    const double passed_s = now_ ? std::max(0.0, stamp_s - *now_) : 0;
    has_two_stamps_ |= now_.has_value();
    now_ = std::max(stamp_s, now_.value_or(stamp_s));
    return passed_s;
}

void LogClock::add(double seconds) {
    if (now_) *now_ += seconds;
}

std::optional<double> LogClock::wall_s() const {
    if (!has_two_stamps_) return std::nullopt;
    return *now_ - *first_;
}

namespace {

using Phase = TimeAccount::Phase;

bool is_start(const TimedEvent& e) {
    return e.event && std::holds_alternative<StartEvent>(*e.event);
}

bool is_load(const TimedEvent& e) {
    return e.event && std::holds_alternative<LoadEvent>(*e.event);
}

bool restarts(const std::vector<TimedEvent>& events) {
    return std::ranges::any_of(events, [](const auto& e) { return is_start(e) || is_load(e); });
}

bool begins_log(const TimedEvent& e) {
    return !e.event;
}

// Sums a segment: its events in the order of the log, then its iteration. Adds the sums to the
// totals.
class Segment {
  public:
    Segment(LogTotals& totals, double least_gap_s)
        : all_(totals),
          log_(totals.log),
          least_gap_s_(least_gap_s),
          at_(log_.last ? std::optional(log_.last->iteration) : std::nullopt),
          reached_(at_.value_or(0)) {}

    void add(const TimedEvent& e) {
        if (!e.event) {
            new_log_ = true;
            return;
        }
        std::visit([&](const auto& event) { on(event, e); }, *e.event);
    }

    void end(const TimedIteration& end, const LogReader::Observer& observer) {
        LoggedIteration line = end.line;
        const LoggedIteration* const last = log_.last ? &*log_.last : nullptr;
        if (!line.global_batch && last) line.global_batch = last->global_batch;  // truncated line
        const bool first_of_run = begins_run(end);
        const i64 before = iteration_before(line, first_of_run);
        const i64 n = line.iteration - before;
        if (!first_of_run) log_.interval = n;
        pass_steps(end, line.step_s * as_double(n), first_of_run);
        count_restarts(first_of_run, end.unix_time_s.has_value());
        if (last) add_stop(first_of_run, before);
        log_.missing_s += missing_s_;
        all_.account.add_steps(before + 1, line.iteration, line.step_s, line.skipped, line.nan);
        if (early_ > 0) log_.rates.add(line, early_, true, last);
        log_.rates.add(line, n, first_of_run, last);
        if (observer) observer(line, before, first_of_run);
        log_.last = line;
    }

    // Ends the last segment, which has no iteration.
    void end_of_log() {
        log_.missing_s += missing_s_;
        log_.stops.n_restarts += log_.last ? n_starts_ : std::max<i64>(0, n_starts_ - 1);
    }

  private:
    // The work that the line of an event states.
    struct Work {
        double save_s = 0;
        std::optional<double> evaluation_s;
    };

    void on(const ClockEvent&, const TimedEvent& e) { pass_time(e, false, {}); }

    void on(const StartEvent& event, const TimedEvent& e) {
        if (!log_.last && !at_) at_ = 0;
        restarts_ = all_.has_starts = true;
        ++n_starts_;
        if (event.n_nodes > 0) log_.n_nodes = event.n_nodes;
        TimedEvent start = e;
        if (start.unix_time_s) *start.unix_time_s -= event.elapsed_s;
        pass_time(start, true, {});
        if (event.elapsed_s > 0) pass_time({ClockEvent{}, e.unix_time_s}, false, {});
    }

    void on(const LoadEvent& event, const TimedEvent& e) {
        // The checkpoint was saved between two logged iterations. More iterations than that show
        // that a part of the log is missing.
        if (at_ && event.iteration - *at_ < log_.interval) add_unlogged(event.iteration);
        restarts_ = true;
        loaded_ = at_ = event.iteration;
        pass_time(e, phase_ == Phase::running && log_.last, {});
    }

    void on(const StopEvent& event, const TimedEvent& e) {
        pass_time(e, false, {});
        phase_ = Phase::stopped;
        if (event.last_iteration && at_ && (restarts_ || !new_log_))
            add_unlogged(*event.last_iteration);
    }

    void on(const EvaluationEvent& event, const TimedEvent& e) {
        if (phase_ == Phase::stopped) phase_ = Phase::running;
        evaluated_ = true;
        if (e.unix_time_s) pass_time(e, false, {.evaluation_s = event.busy_s});
    }

    void on(const SaveEvent& event, const TimedEvent& e) {
        if (phase_ == Phase::stopped) phase_ = Phase::running;
        const double save_s = event.busy_s.value_or(0);
        if (!e.unix_time_s) all_.clock.unstamped_save_s += save_s;
        pass_time(e, false, {.save_s = save_s});
    }

    void pass_time(const TimedEvent& e, bool starts, const Work& work) {
        if (e.unix_time_s) {
            const double gap_s = advance_to(*e.unix_time_s);
            if (e.is_first_stamp && !is_start(e) && gap_s >= least_gap_s_) {
                add_unseen_start(gap_s);
                forget_unstamped();
                phase_ = Phase::starting;
            } else if (starts) {
                add_start(gap_s);
            } else if (phase_ == Phase::running) {
                add_running_gap(gap_s, work);
            } else {
                all_.account.add_gap(phase_, gap_s);
                if (phase_ == Phase::starting) starting_s_ += gap_s;
                forget_unstamped();
            }
        }
        if (starts || !log_.last) phase_ = Phase::starting;
    }

    double advance_to(double stamp_s) {
        const double passed_s = all_.clock.advance_to(stamp_s);
        missing_s_ += passed_s;
        return passed_s;
    }

    void forget_unstamped() {
        evaluated_ = false;
        all_.clock.unstamped_save_s = 0;
    }

    void add_start(double gap_s) {
        starting_s_ = 0;
        evaluated_ = false;
        const double save_s = std::min(gap_s, all_.clock.unstamped_save_s);
        add_running_gap(save_s, {});
        all_.account.add_gap(Phase::stopped, gap_s - save_s);
    }

    void add_unseen_start(double gap_s) {
        ++log_.stops.n_unseen_starts;
        const double mean_s =
            all_.n_timed_starts > 0 ? all_.timed_starts_s / as_double(all_.n_timed_starts) : 0;
        const double restart_s = std::min(gap_s, mean_s);
        all_.account.add_gap(Phase::starting, restart_s);
        all_.account.add_gap(Phase::stopped, gap_s - restart_s);
    }

    void add_running_gap(double gap_s, const Work& work) {
        all_.account.add_gap(Phase::running, gap_s);
        running_s_ += gap_s;
        const double left_s = std::max(0.0, gap_s);
        const double save_s = work.save_s + std::min(all_.clock.unstamped_save_s, left_s);
        all_.account.add_save(save_s);
        if (evaluated_)
            all_.account.add_evaluation(work.evaluation_s.value_or(std::max(0.0, left_s - save_s)));
        forget_unstamped();
    }

    void add_unlogged(i64 iteration) {
        const i64 n = iteration - *at_;
        if (n <= 0) return;
        const i64 from = std::exchange(at_, iteration).value();
        if (!log_.last) {
            early_ += n;
            return;
        }
        double seconds = log_.last->step_s * as_double(n);
        log_.rates.add(*log_.last, n, true, &*log_.last);
        if (all_.clock.now()) {
            seconds = std::clamp(running_s_, 0.0, seconds);
            all_.account.add_gap(Phase::running, -seconds);
            running_s_ -= seconds;
            missing_s_ -= seconds;
        }
        all_.account.add_steps(from + 1, iteration, seconds / as_double(n), 0, 0);
        reached_ = std::max(reached_, iteration);
        unlogged_ = true;
    }

    bool begins_run_unseen(const TimedIteration& end) const {
        const std::optional<double>& now = all_.clock.now();
        if (!new_log_ || !end.unix_time_s || !now) return false;
        const double step_s =
            end.line.step_s * as_double(end.line.iteration - log_.last->iteration);
        return missing_s_ + *end.unix_time_s - *now - step_s >= least_gap_s_;
    }

    bool begins_run(const TimedIteration& end) const {
        return !log_.last || end.line.iteration <= log_.last->iteration || restarts_ || unlogged_ ||
               begins_run_unseen(end);
    }

    i64 iteration_before(const LoggedIteration& line, bool first_of_run) const {
        if (!first_of_run) return log_.last->iteration;
        if (loaded_ && *loaded_ < line.iteration) return *loaded_;
        if (log_.last && log_.last->iteration < line.iteration)
            return reached_ < line.iteration ? reached_ : log_.last->iteration;
        return std::max<i64>(0, line.iteration - log_.interval);
    }

    void pass_steps(const TimedIteration& end, double step_s, bool first_of_run) {
        if (!end.unix_time_s) {
            all_.clock.add(step_s);
            return;
        }
        const bool is_first = !all_.clock.now();
        const double passed_s = advance_to(*end.unix_time_s);
        if (!is_first) {
            missing_s_ -= step_s;
            add_gap_before_steps(passed_s - step_s, first_of_run, end.is_first_stamp);
        }
        forget_unstamped();
    }

    void add_gap_before_steps(double gap_s, bool first_of_run, bool is_first_stamp) {
        if (phase_ == Phase::running && !first_of_run) {
            add_running_gap(gap_s, {});
        } else if (is_first_stamp && gap_s >= least_gap_s_) {
            add_unseen_start(gap_s);
        } else {
            const bool unseen_restart = phase_ == Phase::running;
            all_.account.add_gap(unseen_restart ? Phase::starting : phase_, gap_s);
            if (phase_ != Phase::starting || n_starts_ == 0) return;
            ++all_.n_timed_starts;
            all_.timed_starts_s += starting_s_ + gap_s;
        }
    }

    void count_restarts(bool first_of_run, bool is_stamped) {
        LogStops& stops = log_.stops;
        stops.n_restarts += log_.last ? n_starts_ : std::max<i64>(0, n_starts_ - 1);
        if (!log_.last) return;
        if (first_of_run && (!all_.has_starts || starts_unseen())) ++stops.n_restarts;
        const bool is_clear = is_stamped && all_.clock.has_two_stamps();
        if (new_log_ && !first_of_run && !is_clear) ++stops.n_unclear_logs;
    }

    void add_stop(bool first_of_run, i64 before) {
        LogStop stop{
            .restarted = first_of_run && (n_starts_ > 0 || !all_.has_starts || starts_unseen()),
            .last_iteration = log_.last->iteration,
            .last_computed = reached_,
            .resumed_after = before,
            .unix_time_s = all_.clock.now()};
        if (all_.clock.has_two_stamps()) stop.missing_s = std::max(0.0, missing_s_);
        LogStops& stops = log_.stops;
        if (first_of_run) {
            stop.repeated_s =
                all_.account.discard_after(before, stop.repeated(), log_.last->step_s);
            stops.repeated_iterations += stop.repeated();
            stops.repeated_s += stop.repeated_s;
        } else if (missing_s_ < least_gap_s_) {
            return;
        }
        ++stops.n_stops;
        stops.newest.push_back(stop);
        if (stops.newest.size() > LogStops::max_stops) stops.newest.pop_front();
    }
    bool starts_unseen() const { return new_log_ && n_starts_ == 0; }

    LogTotals& all_;
    LogSummary& log_;
    double least_gap_s_;
    Phase phase_ = Phase::running;
    bool new_log_ = false;   // a log has begun
    bool restarts_ = false;  // a program has started, or a checkpoint was loaded
    i64 n_starts_ = 0;
    std::optional<i64> loaded_;
    // at_: the last iteration that the current run has loaded, logged, or stated at its stop; empty
    // before the first start and the first iteration. reached_: the last iteration that was
    // computed before the current run, or in it. early_: computed iterations before the first
    // logged one. unlogged_: iterations without a line were added, so the next line is of another
    // run.
    std::optional<i64> at_;
    i64 reached_, early_ = 0;
    bool unlogged_ = false;
    bool evaluated_ = false;  // since the last time stamp
    // Time in which no iteration was computed; in which the program ran; of the start that has not
    // reached an iteration yet.
    double missing_s_ = 0, running_s_ = 0, starting_s_ = 0;
};

// Sums the segment of `events` and `end`.
void add_segment(LogTotals& totals, double least_gap_s, const std::vector<TimedEvent>& events,
                 const TimedIteration& end, const LogReader::Observer& observer) {
    Segment segment(totals, least_gap_s);
    for (const TimedEvent& e : events) segment.add(e);
    segment.end(end, observer);
}

}  // namespace

void LogReader::begin_log(const std::optional<FirstIteration>& first) {
    if (overlap_) overlap_->begin_log(first);
    events_.push_back({});
    is_stamped_ = false;
}

void LogReader::add(std::string_view text) {
    ++totals_.log.lines.lines;
    const LogLine line = parse_log_line(text);
    if (overlap_ && skips(line, text)) {
        ++totals_.log.lines.overlapping;
        return;
    }
    totals_.log.lines.invalid += line.n_invalid;
    if (const LoggedIteration* iteration = line.iteration()) {
        add_iteration(*iteration, line.unix_time_s);
    } else if (const LogEvent* event = line.event()) {
        events_.push_back({*event, line.unix_time_s, is_first_stamp(line.unix_time_s)});
    } else if (const auto* ramp = std::get_if<LoggedRamp>(&line.content)) {
        totals_.log.ramp = *ramp;
    }
}

// Returns whether this is the first time stamp of the log.
bool LogReader::is_first_stamp(std::optional<double> unix_time_s) {
    newest_s_ = std::max(newest_s_, unix_time_s);
    return unix_time_s && !std::exchange(is_stamped_, true);
}

// Returns the newest logged iteration; nullptr when there is none.
const LoggedIteration* LogReader::latest() const {
    if (first_) return &first_->line;
    return totals_.log.last ? &*totals_.log.last : nullptr;
}

// Returns whether another rank has logged the iteration of `line`. Such a line has the number of
// the last iteration, or is equal to one of the last 64 lines.
bool LogReader::is_repeated(const LoggedIteration& line) const {
    const LoggedIteration* const last = latest();
    if (!last || line.iteration > last->iteration || restarts(events_)) return false;
    return line.iteration == last->iteration ||
           std::ranges::find(digests_, line.digest) != digests_.end();
}

void LogReader::add_iteration(const LoggedIteration& line, std::optional<double> unix_time_s) {
    constexpr size_t max_digests = 64;
    ++totals_.log.lines.logged;
    if (is_repeated(line)) {
        ++totals_.log.lines.repeated;
        return;
    }
    digests_.push_back(line.digest);
    if (digests_.size() > max_digests) digests_.pop_front();
    const TimedIteration iteration{line, unix_time_s, is_first_stamp(unix_time_s)};
    if (!latest() && !std::ranges::any_of(events_, is_load)) {
        first_ = iteration;
        before_first_ = std::exchange(events_, {});
        return;
    }
    if (first_ && !restarts(events_) && line.iteration > first_->line.iteration)
        totals_.log.interval = line.iteration - first_->line.iteration;
    finish();
    add_segment(totals_, settings_.least_gap_s, events_, iteration, observer_);
    events_.clear();
}

void LogReader::finish() {
    if (!first_) return;
    add_segment(totals_, settings_.least_gap_s, before_first_, *first_, observer_);
    first_.reset();
    before_first_.clear();
}

// Returns whether an event is older than the clock. A log with such an event repeats a part of an
// earlier log.
bool LogReader::is_past(const LogLine& line) const {
    constexpr double least_past_s = 60;  // the clocks of two hosts differ by less
    const std::optional<double> now = std::max(totals_.clock.now(), newest_s_);
    return now && line.unix_time_s && *line.unix_time_s + least_past_s < *now;
}

// Returns whether to skip a line: a line that an earlier log has, too, or an event of the past.
bool LogReader::skips(const LogLine& line, std::string_view text) {
    if (std::holds_alternative<std::monostate>(line.content) && line.n_invalid == 0) return false;
    const bool repeats = overlap_->repeats(line, text);
    const LoggedIteration* const iteration = line.iteration();
    if (!iteration) return repeats || is_past(line);
    if (!repeats) return false;
    // Keeps the last iteration of the earlier log if another rank has printed it after a rotation.
    const LoggedIteration* const last = latest();
    if (last && iteration->iteration == last->iteration && !restarts(events_) &&
        std::ranges::any_of(events_, begins_log))
        return false;
    std::erase_if(events_, begins_log);  // the log continues an earlier log
    is_stamped_ = true;
    return true;
}

LogSummary LogReader::summary() const {
    LogTotals all = totals_;
    if (first_) add_segment(all, settings_.least_gap_s, before_first_, *first_, {});
    Segment rest(all, settings_.least_gap_s);
    for (const TimedEvent& e : events_) rest.add(e);
    rest.end_of_log();
    LogSummary log = std::move(all.log);
    log.time_use = all.account.use();
    log.wall_s = all.clock.wall_s();
    log.missing_s = std::max(0.0, log.missing_s);
    log.last_time_s = all.clock.now();
    return log;
}

}  // namespace lm::metrics
