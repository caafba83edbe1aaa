// SPDX-License-Identifier: Apache-2.0
// Computes the time of a training with failures, saves, restarts, time limits of jobs and waiting
// in a queue, in closed form and by Monte Carlo simulation. Searches for the best interval between
// saves.
#pragma once

#include <optional>

#include "cost/failures.hpp"

namespace lm::cost {

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
