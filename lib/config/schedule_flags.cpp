// SPDX-License-Identifier: Apache-2.0
#include "config/schedule_flags.hpp"

#include <algorithm>
#include <limits>

#include "base/error.hpp"

namespace lm::config {

spec::BatchRamp batch_ramp(const ScheduleFlags& flags) {
    constexpr std::string_view flag = "--rampup-batch-size";
    spec::BatchRamp ramp{.global_batch =
                             flags.global_batch.value_or(flags.micro_batch.value_or(0))};
    const std::vector<i64>& numbers = flags.rampup;
    if (!numbers.empty()) {
        if (numbers.size() != 3) {
            usage_error(flag, "takes START INCREMENT SAMPLES, not {} values", numbers.size());
        }
        if (numbers[0] < 1) {
            usage_error(flag, "the first batch size must be at least 1, not {}", numbers[0]);
        }
        if (numbers[2] < 1) usage_error(flag, "takes at least 1 sample, not {}", numbers[2]);
        if (numbers[0] != ramp.global_batch) {
            ramp.start = numbers[0];
            ramp.increment = numbers[1];
            ramp.samples = numbers[2];
        }
    }
    ramp.check();
    return ramp;
}

i64 training_samples(const ScheduleFlags& flags, const spec::BatchRamp& ramp, i64 seq_length) {
    if (!flags.train_samples && !flags.train_iters && !flags.train_tokens) {
        usage_error("--train-samples",
                    "give one of --train-samples, --train-iters, --train-tokens");
    }
    if (flags.train_samples && flags.train_iters) {
        usage_error("--train-iters", "contradicts --train-samples: give one of the two");
    }
    if (flags.train_tokens && seq_length == 0) usage_error("--train-tokens", "needs --seq-length");
    i64 samples = flags.train_samples.value_or(std::numeric_limits<i64>::max());
    if (flags.train_iters) samples = spec::samples_after(ramp, *flags.train_iters);
    if (flags.train_tokens) {
        // The batch in which the last token lies is trained on whole.
        const i64 needed = ceil_div(*flags.train_tokens, seq_length);
        const i64 whole = spec::count_iterations(ramp, needed);
        const i64 before = spec::samples_after(ramp, whole);
        const i64 taken = before < needed ? spec::samples_after(ramp, whole + 1) : before;
        samples = std::min(samples, taken);
    }
    return samples;
}

}  // namespace lm::config
