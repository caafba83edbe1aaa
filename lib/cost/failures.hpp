// SPDX-License-Identifier: Apache-2.0
// Times between two failures of a training: a Weibull distribution, or measured times.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"

namespace lm::cost {

struct FailureTimes {
    double mean_s = 0;
    // Shape of the Weibull distribution. 1: failures at a constant rate. Below 1: failures come in
    // clusters. The logs of large systems give 0.7 to 0.8 (Schroeder and Gibson, "A large-scale
    // study of failures in high-performance computing systems", DSN 2006, section 5.3).
    double shape = 1;
    std::vector<double> measured_s;  // all equally probable; empty: use the Weibull distribution
};

// Returns whether failures come at a constant rate, as the closed forms of goodput.hpp assume.
inline bool has_constant_rate(const FailureTimes& times) {
    return times.shape == 1 && times.measured_s.empty();
}

// Returns the time between two failures, in seconds: draw number `index` of run number `run`.
double draw_failure_s(const FailureTimes& times, u64 run, u64 index);

// A published failure rate: a line of share/failures.txt.
struct FailureRate {
    std::string name;
    double gpus = 0;
    double failures = 0;
    double hours = 0;
    std::string source;
    // Returns the mean time between failures of `n_gpus` GPUs, in seconds.
    double mean_s(double n_gpus) const { return hours * 3600 / failures * gpus / n_gpus; }
};

// Parses lines "NAME GPUS FAILURES HOURS # SOURCE". Throws Error(usage) naming `path` and the line.
std::vector<FailureRate> parse_failure_rates(const std::string& path, std::string_view text);

// Parses measured times between failures: a duration on each line (7.9h, 90m), "#" begins a
// comment. Throws Error(usage) naming `path` and the line.
FailureTimes parse_failure_times(const std::string& path, std::string_view text);

}  // namespace lm::cost
