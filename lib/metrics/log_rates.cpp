// SPDX-License-Identifier: Apache-2.0
#include "metrics/log_rates.hpp"

#include <algorithm>

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

// Returns the increase of a counter from one line to another; nullopt when a line does not state
// it.
std::optional<double> increase(std::optional<i64> from, std::optional<i64> to) {
    if (!from || !to) return std::nullopt;
    return as_double(std::max<i64>(0, *to - *from));
}

double samples_of(const LoggedIteration& line, i64 n, const LoggedIteration* from) {
    if (from) {
        const auto more = increase(from->consumed_samples, line.consumed_samples);
        if (more) return *more;
    }
    return line.global_batch ? as_double(n) * as_double(*line.global_batch) : 0;
}

}  // namespace

// Updates the sums of squares about the mean by Welford's method (Technometrics 4, 1962). A
// difference of plain sums of squares would lose most digits when a batch has thousands of samples.
void StepFit::add(double batch, double step_s, double weight) {
    n_ += weight;
    const double dx = batch - mean_x_;
    mean_x_ += dx * weight / n_;
    mean_y_ += (step_s - mean_y_) * weight / n_;
    xx_ += weight * dx * (batch - mean_x_);
    xy_ += weight * dx * (step_s - mean_y_);
}

std::optional<double> StepFit::fixed_share(double batch) const {
    // A fit needs batch sizes with at least this relative spread. With a smaller spread, the fit
    // shows only noise.
    constexpr double least_spread = 0.05;
    if (!(n_ > 0) || !(xx_ / n_ > least_spread * least_spread * batch * batch)) return std::nullopt;
    const double slope = xy_ / xx_;
    const double fixed = mean_y_ - slope * mean_x_;
    if (!(slope > 0)) return std::nullopt;
    return std::max(0.0, fixed) / (std::max(0.0, fixed) + slope * batch);
}

// Returns the tokens of the iterations between two lines, which have `samples` samples. Also learns
// the number of tokens of a sample.
double LogRates::tokens_of(const LoggedIteration& line, const LoggedIteration* from,
                           double samples) {
    if (from) {
        const auto more = increase(from->consumed_tokens, line.consumed_tokens);
        if (more && samples > 0 && *more > 0) tokens_per_sample_ = *more / samples;
        if (more) return *more;
    }
    if (!line.consumed_tokens || !line.consumed_samples || *line.consumed_samples <= 0) return 0;
    if (!tokens_per_sample_)
        tokens_per_sample_ = as_double(*line.consumed_tokens) / as_double(*line.consumed_samples);
    return samples * *tokens_per_sample_;
}

void LogRates::add(const LoggedIteration& line, i64 n, bool first_of_run,
                   const LoggedIteration* previous) {
    const LoggedIteration* const from = first_of_run ? nullptr : previous;
    LogSums sums{.iterations = n, .step_s = line.step_s * as_double(n)};
    sums.samples = samples_of(line, n, from);
    sums.tokens = tokens_of(line, from, sums.samples);
    if (line.flops_per_s) {
        sums.flops = *line.flops_per_s * sums.step_s;
        sums.flops_s = sums.step_s;
    }
    sums_ += sums;
    if (previous && previous->global_batch != line.global_batch) recent_.clear();
    recent_.push_back({sums, first_of_run});
    if (static_cast<i64>(recent_.size()) > window_) recent_.pop_front();
    // Uses the mean batch of the interval, since the batch ramp may have changed the batch within
    // it.
    if (sums.samples > 0 && !first_of_run) {
        fit_.add(sums.mean_batch(), line.step_s, as_double(n));
    }
}

LogSums LogRates::recent() const {
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

}  // namespace lm::metrics
