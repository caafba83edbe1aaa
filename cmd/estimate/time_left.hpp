// SPDX-License-Identifier: Apache-2.0
// The remaining iterations and samples of a training along its batch ramp, and the time that they
// take, from the training's log.
#pragma once

#include <optional>
#include <string>

#include "config/train_flags.hpp"
#include "metrics/log_summary.hpp"

namespace lm::estimate {

struct Left {
    i64 iterations = 0;
    std::optional<i64> samples;  // nullopt: the log shows neither samples nor batches
};

// Returns the rest of the training. It ends at the first of --train-samples, --train-iters and
// --train-tokens, or without them at the total iterations of the log. The batch ramp is from the
// flags, else from the log; without a ramp the batch size does not change. `name` is the name of
// the log in messages. Throws Error(usage) when the log does not show the samples, tokens or
// iterations that a flag limits.
Left what_is_left(const metrics::LogSummary& log, const config::TrainFlags& flags,
                  const std::string& name);

// Returns the seconds that `left` takes. A line a + b x batch, fitted to the iterations of the log,
// gives the time of iterations with another batch size than the present one. When the log has only
// one batch size, the time is assumed to be proportional to the samples, and a note states this.
double seconds_left(const metrics::LogSummary& log, const Left& left);

}  // namespace lm::estimate
