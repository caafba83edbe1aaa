// SPDX-License-Identifier: Apache-2.0
// lm-estimate eta: the figures of a training so far: its log, its stops, where its time went, its
// energy.
#pragma once

#include <string>

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

}  // namespace lm::estimate
