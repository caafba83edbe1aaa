// SPDX-License-Identifier: Apache-2.0
#include "metrics/time_account.hpp"

#include <algorithm>

#include "base/types.hpp"

namespace lm::metrics {

void TimeAccount::add_steps(i64 first, i64 last, double step_s, i64 skipped, i64 nan) {
    constexpr size_t max_kept = 100'000;
    const i64 n = last - first + 1;
    if (n < 1) return;
    const i64 not_finite = std::clamp<i64>(nan, 0, n);
    const i64 dropped = std::clamp<i64>(skipped - not_finite, 0, n - not_finite);
    steps_.push_back({first, last, step_s, dropped, not_finite});
    if (steps_.size() > max_kept) steps_.pop_front();
    use_.useful_s += step_s * as_double(n - dropped - not_finite);
    use_.skipped_s += step_s * as_double(dropped);
    use_.nan_s += step_s * as_double(not_finite);
    use_.skipped += dropped;
    use_.nan += not_finite;
}

// When a line is discarded in part, its skipped and nan iterations are assumed to be among its
// first iterations, which are kept.
void TimeAccount::subtract(const Steps& steps, double share) {
    const double n = as_double(steps.last - steps.first + 1) * share;
    const bool whole = share == 1;
    const double skipped = whole ? as_double(steps.skipped) : 0;
    const double nan = whole ? as_double(steps.nan) : 0;
    use_.useful_s -= steps.step_s * (n - skipped - nan);
    use_.skipped_s -= steps.step_s * skipped;
    use_.nan_s -= steps.step_s * nan;
    if (!whole) return;
    use_.skipped -= steps.skipped;
    use_.nan -= steps.nan;
}

double TimeAccount::discard_after(i64 last, i64 n, double step_s) {
    double seconds = 0;
    i64 found = 0;
    while (!steps_.empty() && steps_.back().last > last) {
        Steps& steps = steps_.back();
        const i64 in_line = steps.last - steps.first + 1;
        const i64 discarded = std::min(in_line, steps.last - last);
        subtract(steps, as_double(discarded) / as_double(in_line));
        seconds += steps.step_s * as_double(discarded);
        found += discarded;
        if (discarded < in_line) {
            steps.last = last;
            break;
        }
        steps_.pop_back();
    }
    const double older_s = step_s * as_double(std::max<i64>(0, n - found));
    use_.useful_s -= older_s;
    use_.repeated_s += seconds + older_s;
    use_.repeated += n;
    return seconds + older_s;
}

void TimeAccount::add_gap(Phase phase, double seconds) {
    switch (phase) {
        case Phase::running:
            running_gap_s_ += seconds;
            break;
        case Phase::stopped:
            use_.waiting_s += seconds;
            break;
        case Phase::starting:
            use_.restarting_s += seconds;
            break;
    }
}

TimeUse TimeAccount::use() const {
    TimeUse use = use_;
    use.useful_s = std::max(0.0, use.useful_s);
    use.restarting_s = std::max(0.0, use.restarting_s);
    const double gap_s = std::max(0.0, running_gap_s_);
    use.evaluation_s = std::min(evaluation_s_, gap_s);
    use.saving_s = std::min(save_s_, gap_s - use.evaluation_s);
    use.other_s = gap_s - use.evaluation_s - use.saving_s;
    return use;
}

}  // namespace lm::metrics
