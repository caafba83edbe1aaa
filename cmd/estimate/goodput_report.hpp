// SPDX-License-Identifier: Apache-2.0
// lm-estimate time with failures: the best save interval, the lost time, and the days of a training
// that fails and resumes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cost/goodput.hpp"
#include "figures.hpp"

namespace lm::estimate {

struct FailureFlags {
    cli::WithDefault<cli::Duration> mttf;
    cli::WithDefault<std::string> published;   // a name in share/failures.txt
    cli::WithDefault<std::string> times_file;  // measured times between failures
    cli::WithDefault<double> shape = 1;
    cli::WithDefault<cli::Duration> restart_time;
    // Returns the flag that states the times between failures; nullptr when none is given.
    const char* source() const {
        if (mttf.value.seconds > 0) return "--mttf";
        if (!published.value.empty()) return "--failures";
        return times_file.value.empty() ? nullptr : "--failure-times";
    }
    bool given() const { return source() != nullptr; }
};
void add_failure_options(cli::Options& options, FailureFlags& flags);
// Throws Error(usage) for flags that contradict each other or need another flag.
void check(const FailureFlags& flags);

// The training without failures.
struct RunWithoutFailures {
    i64 n_gpus = 0;
    double work_s = 0;                 // time of all steps and evaluations
    double step_s = 0;                 // time of an iteration with the full batch
    std::optional<i64> save_interval;  // iterations; nullopt: the best interval
    double save_s = 0;
    std::optional<double> job_s;  // limit of a job
    double queue_s = 0;
};

struct GoodputReport {
    std::vector<Figure> figures;
    double running_s = 0;  // without waiting in the queue
    double total_s = 0;
};

// Simulates the training with failures. Warns when the training with --save-interval takes much
// longer than with the best interval. Throws Error(usage) for an invalid flag.
GoodputReport report_goodput(const FailureFlags& flags, const RunWithoutFailures& run);

}  // namespace lm::estimate
