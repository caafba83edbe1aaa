// SPDX-License-Identifier: Apache-2.0
#include "optim/batch_ramp.hpp"

#include <numeric>

#include "base/error.hpp"

namespace lm::optim {

BatchRamp::BatchRamp(i64 global_batch) : ramp_{0, 0, 0, global_batch} {
    ramp_.check();
}

BatchRamp::BatchRamp(i64 global_batch, i64 start, i64 increment, i64 samples)
    : ramp_{start, increment, samples, global_batch} {
    constexpr std::string_view option = "--rampup-batch-size";
    if (start < 1) usage_error(option, "the first batch size must be at least 1, not {}", start);
    if (samples < 1) usage_error(option, "takes at least 1 sample, not {}", samples);
    if (start == global_batch) ramp_ = {0, 0, 0, global_batch};
    ramp_.check();
}

std::vector<spec::RampStep> BatchRamp::stages() const {
    return spec::ramp_steps(ramp_, ramp_.samples + 2 * ramp_.global_batch);
}

void BatchRamp::check(i64 micro_batch, i64 dp_size) const {
    const i64 unit = checked_mul(micro_batch, dp_size);
    if (ramp_.global_batch % unit != 0) {
        const i64 below = ramp_.global_batch / unit * unit;
        usage_error("--global-batch-size",
                    "{} is no multiple of micro batch {} x {} data-parallel ranks = {}: {}{} would "
                    "work",
                    ramp_.global_batch, micro_batch, dp_size, unit,
                    below > 0 ? fmt::format("{} or ", below) : "", below + unit);
    }
    for (const spec::RampStep& stage : stages()) {
        if (stage.batch % unit == 0) continue;
        const i64 fits =
            std::gcd(std::gcd(ramp_.start, ramp_.increment), ramp_.global_batch) / micro_batch;
        usage_error("--rampup-batch-size",
                    "the batch of {} from iteration {} on is no multiple of micro batch {} x {} "
                    "data-parallel ranks = {}: start and increment in multiples of {}, or {}",
                    stage.batch, stage.first_iteration, micro_batch, dp_size, unit, unit,
                    fits > 0 ? fmt::format("a data-parallel size that divides {}", fits)
                             : std::string("a smaller micro batch"));
    }
}

}  // namespace lm::optim
