// SPDX-License-Identifier: Apache-2.0
// The remaining iterations and samples of a training whose log was read, along the batch ramp, and
// their time.
#pragma once

#include <optional>
#include <string>

#include "config/train_flags.hpp"
#include "metrics/log_summary.hpp"

namespace lm::estimate {

struct Left {
    i64 iterations = 0;
    std::optional<i64> samples;  // none: the log shows neither samples nor batches
};

// Returns the rest of the training. The totals are those of --train-samples, --train-iters and
// --train-tokens, whichever ends first, else the total iterations of the log. The ramp is that of
// the flags, else that of the log; without a ramp the batch size does not change. `name` is the
// name of the log in messages. Throws Error(usage) when the log does not show what a flag counts.
Left what_is_left(const metrics::LogSummary& log, const config::TrainFlags& flags,
                  const std::string& name);

// Returns the seconds of `left`. Iterations of other batch sizes than the present one take the time
// of the line a + b x batch through the iterations of the log. When the log shows one batch size
// only, time is assumed to grow with the samples, with a note.
double seconds_left(const metrics::LogSummary& log, const Left& left);

}  // namespace lm::estimate
