// SPDX-License-Identifier: Apache-2.0
// lm-estimate eta --follow: the progress of a training while its logs grow.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "metrics/log_summary.hpp"

namespace lm::estimate {

// The two forms of the progress: all figures for a terminal, one line for a pipe.
struct FollowOutput {
    std::function<void(const metrics::LogSummary&)> print_all;
    std::function<std::string(const metrics::LogSummary&)> one_line;
};

// Reads `logs` until a log states that the run has ended and no line follows within an interval.
// After each interval it draws the text again on a terminal, or prints one line elsewhere. At the
// end it prints the kind of the end and the log line that states it. Returns the exit code: 0 when
// the training is finished or has stopped with its state saved, 1 for any other end.
int follow_logs(const std::vector<std::string>& logs, metrics::LogReader& reader, double interval_s,
                const FollowOutput& output);

}  // namespace lm::estimate
