// SPDX-License-Identifier: Apache-2.0
#include "optim/batch_ramp.hpp"

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

}  // namespace lm::optim
