// SPDX-License-Identifier: Apache-2.0
// What remains of a training whose log was read: iterations and samples along the batch ramp, and
// the time that they take.
#pragma once

#include <optional>
#include <string>

#include "config/train_flags.hpp"
#include "metrics/log_summary.hpp"

namespace lm::estimate {

struct Left {
    i64 iterations = 0;
    std::optional<i64> samples;  // none: the log tells neither samples nor batches
};

// The totals are those of --train-samples, --train-iters and --train-tokens, whichever ends first,
// else the iterations that the log says. The ramp is that of the flags, else that of the log; else
// the batch stays as it is. `name` is the log's, for messages. Throws Error(usage) where the log
// does not show what a flag counts.
Left what_is_left(const metrics::LogSummary& log, const config::TrainFlags& flags,
                  const std::string& name);

// Seconds that `left` takes. Iterations of other sizes than the present one take as long as the
// line a + b x batch through the log's iterations says; where it shows one size only, time is
// taken to grow with the samples, which a note says.
double seconds_left(const metrics::LogSummary& log, const Left& left);

}  // namespace lm::estimate
