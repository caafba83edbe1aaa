// SPDX-License-Identifier: Apache-2.0
// Computes the time of a training with failures, saves, restarts, time limits of jobs and waiting
// in a queue, in closed form and by Monte Carlo simulation. Searches for the best interval between
// saves.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"

namespace lm::cost {

// Times between two failures of a training: a Weibull distribution, or measured times.
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

// A failure loses the work since the last complete save. The program then restarts within the same
// batch job. A job saves before it reaches its limit; then the next job waits in the queue and
// starts.
struct GoodputPlan {
    double work_s = 0;  // steps and evaluations of the whole training
    double save_s = 0;  // time that the training stops for each save
    // The time from a failure, or from the start of a job, until the program computes again.
    double restart_s = 0;
    std::optional<double> job_s;  // limit of a job; nullopt: none
    double queue_s = 0;           // waiting between two jobs
    FailureTimes failures;
};

// Where the time goes, in seconds.
struct Goodput {
    double work_s = 0;
    double saving_s = 0;
    double repeated_s = 0;  // work that failures have discarded
    double restarting_s = 0;
    double queue_s = 0;
    double failures = 0;
    double job_stops = 0;  // times that a job reached its limit
    double running_s() const { return work_s + saving_s + repeated_s + restarting_s; }
    double total_s() const { return running_s() + queue_s; }
};

// Returns sqrt(2 C M), with C = save_s, M = mttf_s (Young, "A first order approximation to the
// optimum checkpoint interval", CACM 17(9), 1974).
double young_interval_s(double save_s, double mttf_s);
// Returns sqrt(2 C M) (1 + 1/3 sqrt(C / 2M) + C / 18M) - C, or M when C >= 2M (Daly, "A higher
// order estimate of the optimum checkpoint interval for restart dumps", FGCS 22, 2006, equation
// 37).
double daly_interval_s(double save_s, double mttf_s);

// Returns the expected times with a save after each `interval_s` of work and failures at a constant
// rate. Without job limits the total is M exp(R / M) (exp((interval + C) / M) - 1) work / interval
// with M = mean time between failures, R = restart_s, C = save_s (Daly 2006, equation 20).
// With job limits, the result also includes the stops of jobs.
Goodput expected_goodput(const GoodputPlan& plan, double interval_s);

struct GoodputRuns {
    Goodput mean;
    double error_s = 0;  // standard error of mean.total_s()
    double p10_s = 0,
           p90_s = 0;  // one run in ten is shorter than p10_s, one in ten longer than p90_s
    i64 n_runs = 0;
};

// Simulates runs with the distribution of plan.failures, in virtual time. The result depends only
// on the arguments.
GoodputRuns simulate_goodput(const GoodputPlan& plan, double interval_s, i64 n_runs);

// Returns the interval with the shortest mean time of simulated runs. The result is exact only to a
// few per cent, because the mean time hardly changes around the optimum.
double best_interval_s(const GoodputPlan& plan);

}  // namespace lm::cost
