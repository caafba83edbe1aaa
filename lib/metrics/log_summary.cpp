// SPDX-License-Identifier: Apache-2.0
#include "metrics/log_summary.hpp"

#include <algorithm>
#include <utility>

#include "base/as_double.hpp"

namespace lm::metrics {
namespace {

void operator+=(LogSums& sums, const LogSums& more) {
    sums.iterations += more.iterations;
    sums.samples += more.samples;
    sums.tokens += more.tokens;
    sums.step_s += more.step_s;
    sums.flops += more.flops;
    sums.flops_s += more.flops_s;
}

}  // namespace

void LogSummary::add(std::string_view text) {
    ++n_lines_;
    const LogLine line = read_log_line(text);
    if (overlap_ && skips(line, text)) {
        ++n_overlapping_;
        return;
    }
    n_invalid_ += line.n_invalid;
    if (line.kind == LogLine::Kind::other) return;
    if (line.kind == LogLine::Kind::iteration) return add(line.iteration);
    if (line.kind == LogLine::Kind::validation && !line.unix_time_s) {
        (first_ ? evaluated_after_first_ : evaluated_) = true;
        if (phase_ == TimeAccount::Phase::stopped) phase_ = TimeAccount::Phase::running;
        return;
    }
    finish();
    switch (line.kind) {
        case LogLine::Kind::other:
        case LogLine::Kind::iteration:
            return;
        case LogLine::Kind::loaded:
            // The checkpoint was saved between two logged iterations. More iterations than that
            // show that a part of the log is missing.
            if (run_at_ && line.loaded_iteration - *run_at_ < interval_)
                add_unlogged(line.loaded_iteration);
            started_ = true;
            loaded_ = run_at_ = line.loaded_iteration;
            break;
        case LogLine::Kind::ramp:
            ramp_ = line.ramp;
            return;
        case LogLine::Kind::stop:
            add_event(line);
            if (line.stopped_after && run_at_ && (started_ || !new_file_))
                add_unlogged(*line.stopped_after);
            return;
        case LogLine::Kind::validation:
        case LogLine::Kind::saved:
            break;
        case LogLine::Kind::start:
            if (!last_ && !run_at_) run_at_ = 0;
            started_ = has_starts_ = true;
            ++n_starts_;
            if (line.n_nodes > 0) n_nodes_ = line.n_nodes;
            break;
        case LogLine::Kind::clock:
            break;
    }
    add_event(line);
}

void LogSummary::begin_file(const std::optional<FirstIteration>& first) {
    if (overlap_) overlap_->begin_log(first);
    if (first_ && first && first->line.iteration > first_->iteration)
        interval_ = first->line.iteration - first_->iteration;
    finish();
    new_file_ = silent_ = true;
}

// Returns whether to skip a line. Skips a line that an earlier log has, too, and an event that is
// older than the clock, because a log with such an event repeats a part of an earlier log.
bool LogSummary::skips(const LogLine& line, std::string_view text) {
    if (line.kind == LogLine::Kind::other && line.n_invalid == 0) return false;
    constexpr double least_past_s = 60;  // the clocks of two hosts differ by less
    const bool is_iteration = line.kind == LogLine::Kind::iteration;
    const bool repeats = overlap_->repeats(line, text);
    const bool is_past =
        !is_iteration && clock_ && line.unix_time_s && *line.unix_time_s + least_past_s < *clock_;
    // Keeps the last iteration of the earlier log if another rank has printed it after a rotation.
    if (repeats && is_iteration && new_file_ && last_ && !started_ &&
        line.iteration.iteration == last_->iteration)
        return false;
    if (repeats && is_iteration) new_file_ = silent_ = false;
    return repeats || is_past;
}

// Adds the time before an event to the account. The time before a start counts as waiting, also
// when no line states the end of the earlier program. A save or an evaluation after a stop line
// (Megatron's "[after training is done]") means that the program still runs.
void LogSummary::add_event(const LogLine& line) {
    using Phase = TimeAccount::Phase;
    using Kind = LogLine::Kind;
    const bool starts = line.kind == Kind::start ||
                        (line.kind == Kind::loaded && phase_ == Phase::running && last_);
    const bool works = line.kind == Kind::validation || line.kind == Kind::saved;
    if (works && phase_ == Phase::stopped) phase_ = Phase::running;
    const double saved_s = line.kind == Kind::saved ? line.busy_s.value_or(0) : 0;
    if (!line.unix_time_s) {
        unstamped_save_s_ += saved_s;
    } else {
        const bool silent = std::exchange(silent_, false);
        const double gap_s = follow_clock(*line.unix_time_s);
        if (line.kind == Kind::validation) evaluated_ = true;
        if (silent && line.kind != Kind::start && gap_s >= settings_.least_gap_s) {
            add_unseen_start(gap_s);
            forget_unstamped();
            phase_ = Phase::starting;
        } else if (starts) {
            starting_now_s_ = 0;
            const double save_s = std::min(gap_s, unstamped_save_s_);
            evaluated_ = false;
            add_running_gap(save_s, 0, {});
            account_.add_gap(Phase::stopped, gap_s - save_s);
        } else if (phase_ == Phase::running) {
            add_running_gap(gap_s, saved_s,
                            line.kind == Kind::validation ? line.busy_s : std::nullopt);
        } else {
            account_.add_gap(phase_, gap_s);
            if (phase_ == Phase::starting) starting_now_s_ += gap_s;
            forget_unstamped();
        }
    }
    if (starts || !last_) phase_ = Phase::starting;
    if (line.kind == Kind::stop) phase_ = Phase::stopped;
}

// Adds the iterations from run_at_ to `iteration`, which no line logs. Each took the step time of
// the last line, but all of them no longer than the program ran after that line.
void LogSummary::add_unlogged(i64 iteration) {
    const i64 n = iteration - *run_at_;
    if (n <= 0) return;
    if (!last_) {
        early_ += n;
        run_at_ = iteration;
        return;
    }
    double seconds = last_->step_s * as_double(n);
    add_sums(*last_, n, true);
    if (clock_) {
        seconds = std::clamp(running_now_s_, 0.0, seconds);
        account_.add_gap(TimeAccount::Phase::running, -seconds);
        running_now_s_ -= seconds;
        missing_now_s_ -= seconds;
    }
    account_.add_steps(*run_at_ + 1, iteration, seconds / as_double(n), 0, 0);
    reached_ = std::max(reached_, iteration);
    run_at_ = iteration;
    stopped_ = true;
}

// Adds the time before a time stamp, in which the program ran. Counts the saves since the previous
// stamp first. An evaluation whose line does not state its time gets the rest.
void LogSummary::add_running_gap(double gap_s, double saved_s, std::optional<double> evaluation_s) {
    account_.add_gap(TimeAccount::Phase::running, gap_s);
    running_now_s_ += gap_s;
    const double left_s = std::max(0.0, gap_s);
    const double unstamped_s = std::min(unstamped_save_s_, left_s);
    account_.add_save(saved_s + unstamped_s);
    if (evaluated_)
        account_.add_evaluation(
            evaluation_s.value_or(std::max(0.0, left_s - saved_s - unstamped_s)));
    forget_unstamped();
}

void LogSummary::forget_unstamped() {
    evaluated_ = false;
    unstamped_save_s_ = 0;
}

void LogSummary::finish() {
    if (!first_) return;
    const LoggedIteration first = *first_;
    first_.reset();
    add_iteration(first);
    evaluated_ = std::exchange(evaluated_after_first_, false);
}

void LogSummary::add(const LoggedIteration& line) {
    ++n_logged_;
    if (!last_ && !first_ && !loaded_) {
        first_ = line;
        return;
    }
    if (first_ && line.iteration == first_->iteration) {
        ++n_repeated_;
        return;
    }
    if (first_ && line.iteration > first_->iteration) {
        interval_ = line.iteration - first_->iteration;
    }
    finish();
    if (is_repeated(line)) {
        ++n_repeated_;
    } else {
        add_iteration(line);
    }
}

double LogSummary::follow_clock(double now) {
    if (!first_clock_) first_clock_ = now;
    // The clocks of several hosts differ a little, so an earlier time does not set the clock back.
    const double passed_s = clock_ ? std::max(0.0, now - *clock_) : 0;
    stamped_ |= clock_.has_value();
    missing_now_s_ += passed_s;
    clock_ = std::max(now, clock_.value_or(now));
    return passed_s;
}

// Returns whether a program started before `line` although no line states the start. This is
// assumed when a new log begins after a time of at least least_gap_s without iterations. Without
// such a gap, the log may be the next part of a rotated log.
bool LogSummary::starts_file(const LoggedIteration& line) const {
    if (!new_file_ || !last_ || !line.unix_time_s || !clock_) return false;
    const double step_s = line.step_s * as_double(line.iteration - last_->iteration);
    return missing_now_s_ + *line.unix_time_s - *clock_ - step_s >= settings_.least_gap_s;
}

// Returns whether `line` repeats an iteration that another rank has logged. Such a line has the
// number of the last iteration, or is equal to one of the last 64 lines.
bool LogSummary::is_repeated(const LoggedIteration& line) const {
    if (!last_ || started_ || line.iteration > last_->iteration) return false;
    return line.iteration == last_->iteration ||
           std::find(digests_.begin(), digests_.end(), line.digest) != digests_.end();
}

void LogSummary::add_iteration(LoggedIteration line) {
    constexpr size_t max_digests = 64;
    digests_.push_back(line.digest);
    if (digests_.size() > max_digests) digests_.pop_front();
    if (!line.global_batch && last_) line.global_batch = last_->global_batch;  // truncated line
    const bool goes_back = last_ && line.iteration <= last_->iteration;
    const bool first_of_run = !last_ || goes_back || started_ || stopped_ || starts_file(line);
    const bool is_loaded = loaded_ && *loaded_ < line.iteration;
    i64 before = is_loaded ? *loaded_ : std::max<i64>(0, line.iteration - interval_);
    if (!first_of_run) {
        before = last_->iteration;
        interval_ = line.iteration - before;
    } else if (!is_loaded && last_ && last_->iteration < line.iteration) {
        before = reached_ < line.iteration ? reached_ : last_->iteration;
    }
    const double step_s = line.step_s * as_double(line.iteration - before);
    if (line.unix_time_s) {
        // The program makes the time stamp of a line after the steps of the line, so the time of
        // these steps is not missing.
        const bool first = !clock_;
        const double passed_s = follow_clock(*line.unix_time_s);
        if (!first) {
            missing_now_s_ -= step_s;
            add_gap_before(passed_s - step_s, first_of_run);
        }
        silent_ = false;
        forget_unstamped();
    } else if (clock_) {
        *clock_ += step_s;
        evaluated_ = false;
    }
    n_restarts_ = n_restarts();
    const bool unseen_start = new_file_ && n_starts_ == 0;
    if (first_of_run && last_ && (!has_starts_ || unseen_start)) ++n_restarts_;
    if (new_file_ && last_ && !first_of_run && !(line.unix_time_s && stamped_)) ++n_unclear_logs_;
    if (last_) find_stop(first_of_run, unseen_start, before);
    missing_s_ += missing_now_s_;
    phase_ = TimeAccount::Phase::running;
    account_.add_steps(before + 1, line.iteration, line.step_s, line.skipped, line.nan);
    if (early_ > 0) add_sums(line, std::exchange(early_, 0), true);
    add_sums(line, line.iteration - before, first_of_run);
    if (observer_) observer_(line, before, first_of_run);
    last_ = line;
    reached_ = line.iteration;
    run_at_ = line.iteration;
    started_ = stopped_ = new_file_ = false;
    n_starts_ = 0;
    loaded_.reset();
    missing_now_s_ = starting_now_s_ = running_now_s_ = 0;
}

// Adds the time before the steps of a logged iteration to the account.
void LogSummary::add_gap_before(double gap_s, bool first_of_run) {
    using Phase = TimeAccount::Phase;
    if (phase_ == Phase::running && !first_of_run) {
        add_running_gap(gap_s, 0, {});
    } else if (silent_ && gap_s >= settings_.least_gap_s) {
        add_unseen_start(gap_s);
    } else {
        const bool unseen_restart = phase_ == Phase::running;
        account_.add_gap(unseen_restart ? Phase::starting : phase_, gap_s);
        if (phase_ != Phase::starting || n_starts_ == 0) return;
        ++n_timed_starts_;
        timed_starts_s_ += starting_now_s_ + gap_s;
    }
}

// Adds the pause before the first time stamp of a log that does not state when its program started.
void LogSummary::add_unseen_start(double gap_s) {
    ++n_unseen_starts_;
    const double mean_s = n_timed_starts_ > 0 ? timed_starts_s_ / as_double(n_timed_starts_) : 0;
    const double restart_s = std::min(gap_s, mean_s);
    account_.add_gap(TimeAccount::Phase::starting, restart_s);
    account_.add_gap(TimeAccount::Phase::stopped, gap_s - restart_s);
}

// Adds the stop, if there was one, between the previous line and the next line, whose iterations
// begin after `before`. `first_of_run`: a restart, or a rollback within the run, has discarded the
// iterations that were logged after iteration `before`.
void LogSummary::find_stop(bool first_of_run, bool unseen_start, i64 before) {
    LogStop stop{.restarted = first_of_run && (n_starts_ > 0 || !has_starts_ || unseen_start),
                 .last_iteration = last_->iteration,
                 .last_computed = reached_,
                 .resumed_after = before,
                 .unix_time_s = clock_};
    if (first_of_run) {
        stop.repeated_s = account_.discard_after(before, stop.repeated(), last_->step_s);
    }
    if (stamped_) stop.missing_s = std::max(0.0, missing_now_s_);
    if (!first_of_run && missing_now_s_ < settings_.least_gap_s) return;
    if (first_of_run) {
        repeated_iterations_ += stop.repeated();
        repeated_s_ += stop.repeated_s;
    }
    keep(stop);
}

void LogSummary::keep(const LogStop& stop) {
    ++n_stops_;
    stops_.push_back(stop);
    if (stops_.size() > max_stops) stops_.pop_front();
}

void LogSummary::add_sums(const LoggedIteration& line, i64 n, bool first_of_run) {
    LogSums sums{.iterations = n, .step_s = line.step_s * as_double(n)};
    const bool follows = last_ && !first_of_run;
    const auto increase = [](i64 from, i64 to) { return as_double(std::max<i64>(0, to - from)); };
    if (follows && line.consumed_samples && last_->consumed_samples) {
        sums.samples = increase(*last_->consumed_samples, *line.consumed_samples);
    } else if (line.global_batch) {
        sums.samples = as_double(n) * as_double(*line.global_batch);
    }
    if (follows && line.consumed_tokens && last_->consumed_tokens) {
        sums.tokens = increase(*last_->consumed_tokens, *line.consumed_tokens);
        if (sums.samples > 0 && sums.tokens > 0) tokens_per_sample_ = sums.tokens / sums.samples;
    } else if (line.consumed_tokens && line.consumed_samples && *line.consumed_samples > 0) {
        if (!tokens_per_sample_) {
            tokens_per_sample_ =
                as_double(*line.consumed_tokens) / as_double(*line.consumed_samples);
        }
        sums.tokens = sums.samples * *tokens_per_sample_;
    }
    if (line.flops_per_s) {
        sums.flops = *line.flops_per_s * sums.step_s;
        sums.flops_s = sums.step_s;
    }
    sums_ += sums;
    if (last_ && last_->global_batch != line.global_batch) recent_.clear();
    recent_.push_back({sums, first_of_run});
    if (static_cast<i64>(recent_.size()) > settings_.window) recent_.pop_front();
    // Uses the mean batch of the interval, since the batch ramp may have changed the batch within
    // it.
    if (sums.samples > 0 && !first_of_run) {
        fit_.add(sums.mean_batch(), line.step_s, as_double(n));
    }
}

// The first start does not count, because it is not a restart.
i64 LogSummary::n_restarts() const {
    return n_restarts_ + (last_ ? n_starts_ : std::max<i64>(0, n_starts_ - 1));
}

LogSums LogSummary::recent() const {
    const auto sum = [this](bool with_first) {
        LogSums sums;
        for (const Recent& line : recent_) {
            if (with_first || !line.first_of_run) sums += line.sums;
        }
        return sums;
    };
    const LogSums usual = sum(false);
    return usual.iterations > 0 ? usual : sum(true);
}

std::optional<double> LogSummary::wall_s() const {
    if (!stamped_) return std::nullopt;
    return *clock_ - *first_clock_;
}

}  // namespace lm::metrics
