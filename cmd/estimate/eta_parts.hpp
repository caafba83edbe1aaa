// SPDX-License-Identifier: Apache-2.0
// The parts of lm-estimate eta: the figures and stops of a log, --why and --follow.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "figures.hpp"
#include "metrics/log_summary.hpp"

namespace lm::estimate {

// Prints notes on what the summary of several logs assumes. `gap_s`: --gap.
void note_assumptions(const metrics::LogSummary& log, double gap_s);
void add_log(Printout& printout, const metrics::LogSummary& log);
// Adds the figures of where the time went: hours and shares of useful steps, steps computed twice,
// evaluations, saves, starts, waiting, ...
void add_time_use(Printout& printout, const metrics::LogSummary& log);
// Adds a table of the newest stops: at most `most` of them.
void add_stops(Printout& printout, const metrics::LogSummary& log, size_t most);
// Adds the energy of the training: the sum over the energy files of all hosts and all starts.
void add_energy(Printout& printout, const std::string& directory, const metrics::LogSums& sums);

// Prints the line of the logs that states why the job ended. Returns the exit code: 0 when the logs
// have such a line, else 1.
int print_cause(const std::vector<std::string>& logs, const OutputFlags& output);

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
