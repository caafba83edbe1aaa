// SPDX-License-Identifier: Apache-2.0
// Computes from the log of a training its remaining iterations and samples, with the batch sizes of
// the ramp, and estimates the time that they take.
#pragma once

#include <optional>
#include <string>

#include "metrics/log_summary.hpp"
#include "spec/batch_ramp.hpp"

namespace lm::metrics {

// The length of a training as flags state it. Empty members are taken from the log.
struct RunLength {
    std::optional<spec::BatchRamp> ramp;
    std::optional<i64> train_samples, train_iters, train_tokens;
    std::optional<i64> seq_length;  // tokens of a sample
};

struct Left {
    i64 iterations = 0;
    std::optional<i64> samples;  // nullopt: the log shows neither samples nor batches
};

// Returns the rest of the training. The training ends as soon as it reaches --train-samples,
// --train-iters or --train-tokens; without these flags, at the total iterations that the log
// states. The batch ramp comes from `length`, or else from the log; without a ramp the batch size
// does not change. `name` is the name of the log in messages. Throws Error(usage) for
// --train-samples with --train-iters, and when the log does not have the counts that a flag limits.
Left remaining_of(const LogSummary& log, const RunLength& length, const std::string& name);

// Returns the seconds that the rest `left` takes. For batch sizes other than the current batch
// size, the time of an iteration is computed as a + b x batch, with a and b fitted to the
// iterations of the log. When the log does not show how the time depends on the batch size, the
// time is assumed to be proportional to the samples, and a note states this if the batch size
// changes. `share`: the batch of a replica in the rest divided by the batch of a replica in the
// log; not 1 when the rest runs on another number of nodes.
double seconds_left(const LogSummary& log, const Left& left, double share = 1);

// Returns the share of the wall time in which iterations were computed for the first time; nullopt
// when the log has fewer than two time stamps.
std::optional<double> availability(const LogSummary& log);

// Returns the seconds from the last iteration to `now` (unix time); nullopt when the log has no
// time stamps.
std::optional<double> age_s(const LogSummary& log, double now);

// Returns the time between two lines of the log.
double between_lines_s(const LogSummary& log);

}  // namespace lm::metrics
