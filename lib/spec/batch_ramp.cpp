// SPDX-License-Identifier: Apache-2.0
#include "spec/batch_ramp.hpp"

#include "base/error.hpp"

namespace lm::spec {

void BatchRamp::check() const {
    constexpr std::string_view flag = "--rampup-batch-size";
    if (global_batch < 1) usage_error("--global-batch-size", "{} is not at least 1", global_batch);
    if (start == 0) return;
    if (start < 1 || increment < 1) usage_error(flag, "start and increment must be at least 1");
    if (start >= global_batch) {
        usage_error(flag, "starts at {}, which is not below --global-batch-size {}", start,
                    global_batch);
    }
    if ((global_batch - start) % increment != 0) {
        usage_error(flag, "from {} by {} does not reach --global-batch-size {}", start, increment,
                    global_batch);
    }
}

i64 BatchRamp::batch_at(i64 consumed_samples) const {
    if (start == 0 || consumed_samples > samples) return global_batch;
    const i64 n_increments = (global_batch - start) / increment;
    // Megatron divides in floating point and truncates.
    const double samples_per_increment =
        static_cast<double>(samples) / static_cast<double>(n_increments);
    if (samples_per_increment == 0.0) return start;
    const i64 steps =
        static_cast<i64>(static_cast<double>(consumed_samples) / samples_per_increment);
    return start + steps * increment;
}

std::vector<RampStep> ramp_steps(const BatchRamp& ramp, i64 total_samples) {
    ramp.check();
    std::vector<RampStep> steps;
    i64 consumed = 0;
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
    while (ramp.start != 0 && consumed <= ramp.samples) {
        const i64 batch = ramp.batch_at(consumed);
        if (consumed + batch > total_samples) return steps;
        add(batch, 1);
    }
    add(ramp.global_batch, (total_samples - consumed) / ramp.global_batch);
    return steps;
}

i64 count_iterations(const BatchRamp& ramp, i64 total_samples) {
    i64 n = 0;
    for (const RampStep& step : ramp_steps(ramp, total_samples)) n += step.n_iterations;
    return n;
}

}  // namespace lm::spec
