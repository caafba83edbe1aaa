// SPDX-License-Identifier: Apache-2.0
#include "metrics/remaining.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/shape.hpp"
#include "base/types.hpp"

namespace lm::metrics {
namespace {

bool is_usable(const LoggedRamp& r) {
    return r.start >= 1 && r.increment >= 1 && r.samples >= 1 && r.start < r.global_batch &&
           (r.global_batch - r.start) % r.increment == 0;
}

// Returns the batch ramp; nullopt when the batch size is not known.
std::optional<spec::BatchRamp> ramp_of(const LogSummary& log, const RunLength& length) {
    if (length.ramp) return length.ramp;
    if (const auto& r = log.ramp; r && is_usable(*r)) {
        return spec::BatchRamp{r->start, r->increment, r->samples, r->global_batch};
    }
    if (!log.last->global_batch || *log.last->global_batch < 1) return std::nullopt;
    return spec::BatchRamp{.global_batch = *log.last->global_batch};
}

void compare(const LoggedIteration& last, const spec::BatchRamp& ramp, const std::string& name) {
    if (!last.global_batch || !last.consumed_samples) return;
    const i64 before = std::max<i64>(0, *last.consumed_samples - *last.global_batch);
    const i64 expected = ramp.batch_at(before);
    if (expected == *last.global_batch) return;
    warn(
        "{}: iteration {} has a batch of {} samples, but the batch schedule has {}: give "
        "--global-batch-size and --rampup-batch-size of the run that wrote this log",
        name, last.iteration, *last.global_batch, expected);
}

Left left_by_samples(const spec::BatchRamp& ramp, i64 consumed, i64 total) {
    Left left{0, 0};
    for (const spec::RampStep& step : ramp_steps(ramp, total, consumed)) {
        left.iterations += step.n_iterations;
        *left.samples += step.batch * step.n_iterations;
    }
    return left;
}

Left left_by_iterations(const std::optional<spec::BatchRamp>& ramp, i64 consumed, i64 iterations) {
    Left left{std::max<i64>(0, iterations), std::nullopt};
    if (!ramp) return left;
    left.samples = 0;
    i64 rest = left.iterations;
    const i64 most = checked_mul(rest, ramp->global_batch);
    for (const spec::RampStep& step : ramp_steps(*ramp, consumed + most, consumed)) {
        const i64 n = std::min(rest, step.n_iterations);
        *left.samples += n * step.batch;
        rest -= n;
    }
    return left;
}

// Returns the rest of a training of `tokens` tokens. The training consumes the whole batch that
// contains the last token.
Left left_by_tokens(const LogSummary& log, const spec::BatchRamp& ramp, i64 consumed, i64 tokens,
                    std::optional<i64> seq_length) {
    constexpr std::string_view flag = "--train-tokens";
    const std::optional<double> per_sample =
        seq_length ? std::optional(as_double(*seq_length)) : log.rates.tokens_per_sample();
    if (!per_sample || !(*per_sample > 0))
        usage_error(flag,
                    "this log does not state the number of tokens of a sample: add --seq-length");
    const double done = log.last->consumed_tokens ? as_double(*log.last->consumed_tokens)
                                                  : as_double(consumed) * *per_sample;
    const double needed = std::ceil(std::max(0.0, as_double(tokens) - done) / *per_sample);
    const i64 total = consumed + static_cast<i64>(needed);
    Left left = left_by_samples(ramp, consumed, total);
    if (consumed + *left.samples < total) {
        left.samples = *left.samples + ramp.batch_at(consumed + *left.samples);
        ++left.iterations;
    }
    return left;
}

// Throws Error(usage) when the log does not have the counts that --train-samples or --train-tokens
// limits.
void check_counts(const LoggedIteration& last, const std::optional<spec::BatchRamp>& ramp,
                  const RunLength& schedule, const std::string& name) {
    const char* flag = schedule.train_samples ? "--train-samples" : "--train-tokens";
    if (!last.consumed_samples)
        usage_error(
            flag, "needs the consumed samples, which {} does not state: give --train-iters instead",
            name);
    if (!ramp)
        usage_error("--global-batch-size", "is missing, and {} does not state the batch size",
                    name);
}

}  // namespace

Left remaining_of(const LogSummary& log, const RunLength& schedule, const std::string& name) {
    const LoggedIteration& last = *log.last;
    if (schedule.train_samples && schedule.train_iters) {
        usage_error("--train-iters",
                    "cannot be combined with --train-samples: give one of the two");
    }
    const std::optional<spec::BatchRamp> ramp = ramp_of(log, schedule);
    if (ramp) compare(last, *ramp, name);
    if (!schedule.train_samples && !schedule.train_tokens) {
        const i64 total = schedule.train_iters.value_or(last.total_iterations);
        if (total < 1)
            usage_error("--train-iters",
                        "is missing, and {} does not state the total number of iterations", name);
        // Old logs do not state the consumed samples. Their trainings had no ramp, so the remaining
        // iterations do not depend on this number.
        return left_by_iterations(ramp, last.consumed_samples.value_or(0), total - last.iteration);
    }
    check_counts(last, ramp, schedule, name);
    const i64 consumed = *last.consumed_samples;
    Left left{std::numeric_limits<i64>::max(), std::nullopt};
    const auto at_most = [&left](const Left& other) {
        if (other.iterations < left.iterations) left = other;
    };
    if (schedule.train_samples) at_most(left_by_samples(*ramp, consumed, *schedule.train_samples));
    if (schedule.train_iters) {
        at_most(left_by_iterations(ramp, consumed, *schedule.train_iters - last.iteration));
    }
    if (schedule.train_tokens) {
        at_most(left_by_tokens(log, *ramp, consumed, *schedule.train_tokens, schedule.seq_length));
    }
    return left;
}

double seconds_left(const LogSummary& log, const Left& left, double share) {
    const LogSums recent = log.rates.recent();
    const double same = as_double(left.iterations) * recent.mean_step_s();
    const double batch = recent.mean_batch();
    if (left.iterations == 0 || !left.samples || batch <= 0) return same * share;
    const double ratio = as_double(*left.samples) / as_double(left.iterations) / batch;
    const std::optional<double> fixed = log.rates.fit().fixed_share(batch);
    constexpr double alike = 1e-2;
    if (!fixed && share != 1) {
        note(
            "--nodes: the log does not show how the step time depends on the batch size, so the "
            "time is assumed to be inversely "
            "proportional to the number of nodes, which overestimates the gain of more nodes");
    } else if (!fixed && std::abs(ratio - 1) > alike) {
        note(
            "the mean batch is {:.0f} samples in the log and {:.0f} in the remaining iterations, "
            "so the step time is assumed to be proportional to the batch, which overestimates "
            "the time if the batch grows",
            batch, ratio * batch);
    }
    return same * (fixed.value_or(0) + (1 - fixed.value_or(0)) * ratio * share);
}

std::optional<double> availability(const LogSummary& log) {
    if (!log.wall_s || !(*log.wall_s > 0)) return std::nullopt;
    return std::clamp(1 - (log.missing_s + log.stops.repeated_s) / *log.wall_s, 0.0, 1.0);
}

std::optional<double> age_s(const LogSummary& log, double now) {
    if (!log.last_time_s) return std::nullopt;
    return std::max(0.0, now - *log.last_time_s);
}

double between_lines_s(const LogSummary& log) {
    return as_double(log.interval) * log.rates.recent().mean_step_s();
}

}  // namespace lm::metrics
