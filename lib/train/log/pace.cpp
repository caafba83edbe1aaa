// SPDX-License-Identifier: Apache-2.0
#include "train/log/pace.hpp"

#include "base/log.hpp"
#include "base/types.hpp"
#include "base/units.hpp"
#include "cli/terminal.hpp"

namespace lm::train {
namespace {

// No note is printed when the next log line is due within soon_s and the training ends within
// short_s, both in seconds. A longer training gets the note even if a log line is due soon, because
// log lines do not state the end of the training.
constexpr double soon_s = 10;
constexpr double short_s = 3600;
// The time of an iteration is predicted during the first iteration, when at least n_measured
// micro-batches after the first have taken at least measured_s seconds in all.
constexpr double measured_s = 2;
constexpr i64 n_measured = 2;
constexpr double year_s = 365 * 86400.0;

}  // namespace

Pace::Pace(const RunConfig& config, const spec::Counters& done, bool shows, double (*clock)())
    : config_(config), shows_(shows), clock_(clock) {
    if (!shows || config.logging.quiet || !cli::stderr_is_terminal()) return;
    line_.emplace("training", "tokens", config.schedule.end().tokens, false, clock, done.tokens);
}

void Pace::begin_iteration(const spec::Counters& done, i64 n_micro_batches, i64 tokens) {
    done_ = done;
    n_micro_batches_ = n_micro_batches;
    tokens_ = tokens;
    micro_batch_ = 0;
}

void Pace::begin_micro_batch() {
    if (!shows_) return;
    const i64 computed = micro_batch_++;
    if (line_) {
        const i64 tokens = tokens_ * computed / n_micro_batches_;
        line_->update(done_.tokens + tokens, fmt::format("iteration {} of {}", done_.iteration + 1,
                                                         config_.schedule.total_iterations()));
    }
    // Only without a pipeline, the time between the starts of two micro-batches is the time of a
    // micro-batch. In a pipeline, a micro-batch starts before the previous micro-batches have
    // ended.
    if (announced_ || n_iterations_ > 0 || config_.trainer.parallel.pp > 1) return;
    if (computed == 1) second_began_s_ = clock_();
    const i64 n = computed - 1;
    if (n < n_measured) return;
    const double passed_s = clock_() - second_began_s_;
    if (passed_s >= measured_s) announce(passed_s / as_double(n) * as_double(n_micro_batches_));
}

void Pace::end_iteration(double step_s) {
    // The first iteration includes warm-up, so the time of the second iteration is announced.
    if (++n_iterations_ == 2 && shows_ && !announced_) announce(step_s);
}

void Pace::announce(double iteration_s) {
    announced_ = true;
    const double tokens_per_s = as_double(tokens_) / iteration_s;
    const double left_s = as_double(config_.schedule.end().tokens - done_.tokens) / tokens_per_s;
    const std::string text = fmt::format(
        "{} an iteration, {} tokens/s: {} iterations take {}, until {}",
        human_duration(iteration_s), human_count(tokens_per_s),
        config_.schedule.total_iterations() - done_.iteration,
        left_s < year_s ? human_duration(left_s) : fmt::format("{:.1f} years", left_s / year_s),
        left_s < 1000 * year_s ? iso_time(static_cast<i64>(unix_time_s() + left_s))
                               : "after the year 3000");
    if (left_s >= year_s) {
        warn("{}: shorten the training, or give a smaller model or more ranks", text);
        return;
    }
    const i64 to_log = config_.logging.interval - done_.iteration % config_.logging.interval;
    if (as_double(to_log) * iteration_s >= soon_s || left_s >= short_s) note("{}", text);
}

}  // namespace lm::train
