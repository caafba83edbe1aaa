// SPDX-License-Identifier: Apache-2.0
#include "spec/batch_ramp.hpp"

#include <algorithm>
#include <numeric>

#include "base/bounds.hpp"
#include "base/error.hpp"
#include "base/shape.hpp"

namespace lm::spec {

namespace {

void check_steps(const std::vector<BatchFrom>& steps) {
    constexpr std::string_view flag = "--step-batch-size-schedule";
    if (steps.front().samples != 0)
        usage_error(flag, "must start at 0 samples, got {}", steps.front().samples);
    for (size_t k = 0; k < steps.size(); ++k) {
        if (steps[k].batch < 1)
            usage_error(flag, "the batch size must be at least 1, got {}", steps[k].batch);
        if (k == 0) continue;
        const BatchFrom& before = steps[k - 1];
        if (steps[k].samples <= before.samples)
            usage_error(flag, "the numbers of samples must increase, got {1} and then {0}",
                        steps[k].samples, before.samples);
        if (steps[k].batch < before.batch)
            usage_error(flag, "the batch must not decrease, got {} and then {}", before.batch,
                        steps[k].batch);
    }
}

// Returns the first entry that begins after `consumed` samples, or the end.
auto step_after(const std::vector<BatchFrom>& steps, i64 consumed) {
    return std::ranges::upper_bound(steps, consumed, {}, &BatchFrom::samples);
}

}  // namespace

void BatchRamp::check() const {
    constexpr std::string_view flag = "--rampup-batch-size";
    check_at_least("--global-batch-size", global_batch, 1);
    if (!steps.empty()) return check_steps(steps);
    if (start == 0) return;
    if (start < 1 || increment < 1) usage_error(flag, "start and increment must be at least 1");
    if (samples > i64{1} << 60)
        usage_error(flag, "must last for at most 2^60 samples, got {}", samples);
    if (start >= global_batch) {
        usage_error(flag, "must start below --global-batch-size {1}, got {0}", start, global_batch);
    }
    if ((global_batch - start) % increment != 0) {
        usage_error(flag,
                    "increments of {} do not lead from {} to --global-batch-size {}: choose an "
                    "increment that divides {}",
                    increment, start, global_batch, global_batch - start);
    }
}

i64 BatchRamp::batch_at(i64 consumed_samples) const {
    if (is_full(consumed_samples)) return global_batch;
    if (!steps.empty()) return std::prev(step_after(steps, consumed_samples))->batch;
    const i64 n_increments = (global_batch - start) / increment;
    // Megatron divides in floating point and truncates.
    const double samples_per_increment =
        static_cast<double>(samples) / static_cast<double>(n_increments);
    if (samples_per_increment == 0.0) return start;
    const i64 n_done =
        static_cast<i64>(static_cast<double>(consumed_samples) / samples_per_increment);
    return start + n_done * increment;
}

namespace {

// Returns how many consecutive iterations within the ramp have the same batch size, beginning with
// the iteration that starts after `consumed` samples. batch_at() never decreases, so a search with
// doubling and then halving steps finds the last of these iterations.
i64 iterations_of_batch(const BatchRamp& ramp, i64 consumed) {
    const i64 batch = ramp.batch_at(consumed);
    if (!ramp.steps.empty()) {
        return ceil_div(step_after(ramp.steps, consumed)->samples - consumed, batch);
    }
    const auto same = [&](i64 n) {  // true when iteration n, counted from 0, has this batch size
        const i64 before = consumed + n * batch;
        return before <= ramp.samples && ramp.batch_at(before) == batch;
    };
    i64 last = 0;
    i64 step = 1;
    while (same(last + step)) {
        last += step;
        step *= 2;
    }
    for (; step > 0; step /= 2) {
        if (same(last + step)) last += step;
    }
    return last + 1;
}

}  // namespace

std::vector<RampStep> ramp_steps(const BatchRamp& ramp, i64 total_samples, i64 consumed) {
    ramp.check();
    std::vector<RampStep> steps;
    i64 iteration = 1;
    const auto add = [&](i64 batch, i64 n_iterations) {
        if (n_iterations < 1) return;
        if (steps.empty() || steps.back().batch != batch) {
            steps.push_back({batch, iteration, consumed, 0});
        }
        steps.back().n_iterations += n_iterations;
        iteration += n_iterations;
        consumed += batch * n_iterations;
    };
    while (!ramp.is_full(consumed)) {
        const i64 batch = ramp.batch_at(consumed);
        const i64 whole = (total_samples - consumed) / batch;
        const i64 n = iterations_of_batch(ramp, consumed);
        add(batch, std::min(n, whole));
        if (whole < n) return steps;
    }
    add(ramp.global_batch, (total_samples - consumed) / ramp.global_batch);
    return steps;
}

std::vector<RampStep> BatchRamp::stages(i64 consumed) const {
    const bool fits = global_batch <= (INT64_MAX - samples) / 2;
    std::vector<RampStep> all = ramp_steps(*this, fits ? samples + 2 * global_batch : INT64_MAX);
    if (is_full(consumed)) return {all.back()};
    std::erase_if(all, [consumed](const RampStep& s) { return s.consumed_after() <= consumed; });
    return all;
}

i64 samples_after(const BatchRamp& ramp, i64 iterations, i64 consumed) {
    i64 samples = consumed;
    i64 k = 0;
    for (; k < iterations && !ramp.is_full(samples); ++k) {
        samples += ramp.batch_at(samples);
    }
    return samples + checked_mul(iterations - k, ramp.global_batch);
}

std::vector<i64> fitting_dp_sizes(const BatchRamp& ramp, i64 micro_batch, i64 limit) {
    i64 common = 0;
    for (const RampStep& stage : ramp.stages()) common = std::gcd(common, stage.batch);
    std::vector<i64> sizes;
    for (i64 size = 1; size <= std::min(limit, common); ++size) {
        if (common % checked_mul(size, micro_batch) == 0) sizes.push_back(size);
    }
    return sizes;
}

i64 count_iterations(const BatchRamp& ramp, i64 total_samples, i64 consumed) {
    i64 n = 0;
    for (const RampStep& step : ramp_steps(ramp, total_samples, consumed)) n += step.n_iterations;
    return n;
}

}  // namespace lm::spec
