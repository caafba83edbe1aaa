// SPDX-License-Identifier: Apache-2.0
#include "goodput_report.hpp"

#include <algorithm>
#include <cmath>

#include "base/bounds.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/nearest_name.hpp"
#include "base/types.hpp"
#include "base/units.hpp"
#include "base/version.hpp"
#include "io/file.hpp"

namespace lm::estimate {
namespace {

cost::FailureRate published_rate(const std::string& name) {
    const std::string path = share_file("failures.txt");
    std::vector<std::string> names;
    for (const cost::FailureRate& rate : cost::parse_failure_rates(path, io::read_input(path))) {
        if (rate.name == name) return rate;
        names.push_back(rate.name);
    }
    refuse_value("--failures", name, names);
}

// The times between failures, and the source of these times, which --explain prints.
struct Failures {
    cost::FailureTimes times;
    std::string source;
};

Failures resolve_failures(const FailureFlags& flags, double n_gpus) {
    const std::string& file = flags.times_file;
    if (!file.empty()) {
        if (!io::exists(file)) usage_error("--failure-times", "{} does not exist", file);
        return {cost::parse_failure_times(file, io::read_input(file)), "the mean of " + file};
    }
    if (flags.published.value.empty()) {
        return {{.mean_s = flags.mttf.value.seconds, .shape = flags.shape, .measured_s = {}},
                "--mttf"};
    }
    const cost::FailureRate rate = published_rate(flags.published);
    return {{.mean_s = rate.mean_s(n_gpus), .shape = flags.shape, .measured_s = {}},
            fmt::format("{} x {:.0f} / --gpus; {}", human_duration(rate.mean_s(rate.gpus)),
                        rate.gpus, rate.source)};
}

// Throws Error(usage) when the training fails so often that it hardly advances.
void check_advances(const cost::GoodputPlan& plan, const char* source) {
    const double needed_s = plan.restart_s + plan.save_s;
    if (plan.job_s && *plan.job_s <= needed_s) {
        usage_error("--exit-duration-in-mins",
                    "a job of {} is not longer than --restart-time and --save-time, {}",
                    human_duration(*plan.job_s), human_duration(needed_s));
    }
    constexpr double most = 100;
    const double interval_s = cost::daly_interval_s(plan.save_s, plan.failures.mean_s);
    const double total_s = cost::expected_goodput(plan, interval_s).running_s();
    if (total_s < most * plan.work_s) return;
    usage_error(source,
                "with a failure every {}, the training takes more than {} times its time without "
                "failures: reduce --restart-time {} or --save-time {}",
                human_duration(plan.failures.mean_s), most, human_duration(plan.restart_s),
                human_duration(plan.save_s));
}

i64 iterations_of(double interval_s, double step_s) {
    return std::max<i64>(1, std::llround(interval_s / step_s));
}

// Warns when the run with the save interval `given_s` takes at least one per cent longer than the
// run with the best interval `best_s`.
void compare_intervals(const cost::GoodputPlan& plan, const RunWithoutFailures& run, double best_s,
                       double total_s, i64 n_runs) {
    constexpr double much = 0.01;
    const double best_total_s = cost::simulate_goodput(plan, best_s, n_runs).mean.total_s();
    if (total_s - best_total_s < much * best_total_s) return;
    warn(
        "--save-interval: with an interval of {} iterations, the run takes {} longer than with the "
        "best interval of {} iterations",
        *run.save_interval, human_duration(total_s - best_total_s),
        iterations_of(best_s, run.step_s));
}

void add_interval_figures(std::vector<Figure>& figures, const cost::GoodputPlan& plan,
                          double best_s, double step_s) {
    const double m = plan.failures.mean_s;
    add_seconds(figures, "young", "best interval by Young", cost::young_interval_s(plan.save_s, m),
                "sqrt(2 C M), C = --save-time, M = time between failures; CACM 17(9), 1974");
    add_seconds(figures, "daly", "best interval by Daly", cost::daly_interval_s(plan.save_s, m),
                "sqrt(2 C M) (1 + sqrt(C / 2M) / 3 + C / 18M) - C; FGCS 22, 2006, equation 37");
    add_seconds(figures, "best_interval", "best interval by simulation", best_s,
                "the interval whose simulated runs take the least time on average; tried: 1/8 to 8 "
                "times Daly's");
    figures.push_back({"best_interval_iterations", "  in iterations", Unit::count,
                       iterations_of(best_s, step_s),
                       "for --save-interval; interval / time of an iteration"});
}

void add_time_figures(std::vector<Figure>& figures, const cost::GoodputRuns& runs) {
    const cost::Goodput& mean = runs.mean;
    figures.push_back(
        {"failures", "failures", Unit::plain, mean.failures, "mean of the simulated runs"});
    add_seconds(figures, "work", "steps and evaluations", mean.work_s, "");
    add_seconds(figures, "saving", "saving", mean.saving_s,
                "after each interval of work, and before the limit of a job");
    add_seconds(figures, "repeated", "work computed twice", mean.repeated_s,
                "at each failure, the work since the last save");
    add_seconds(figures, "restarting", "restarting", mean.restarting_s,
                "--restart-time for each failure and each job after the first");
    add_seconds(figures, "lost", "lost time", mean.running_s() - mean.work_s,
                "saving + work computed twice + restarting");
    figures.push_back({"goodput", "goodput", Unit::share, mean.work_s / mean.running_s(),
                       "steps and evaluations / running time"});
    add_seconds(figures, "running", "running time with failures", mean.running_s(), "");
    if (mean.job_stops > 0) {
        figures.push_back({"job_stops", "jobs that reach their limit", Unit::plain, mean.job_stops,
                           "jobs that --exit-duration-in-mins ends"});
        add_seconds(figures, "queue", "waiting in the queue", mean.queue_s,
                    "--queue-gap for each job that reaches its limit");
    }
    add_seconds(figures, "total", "time with failures", mean.total_s(),
                fmt::format("mean of {} simulated runs; standard error {}", runs.n_runs,
                            human_duration(runs.error_s)));
    add_seconds(figures, "p10", "  one run of ten is shorter than", runs.p10_s, "");
    add_seconds(figures, "p90", "  one run of ten is longer than", runs.p90_s, "");
}

}  // namespace

void add_failure_options(cli::Options& options, FailureFlags& flags) {
    options.group("Failures");
    options.value("--mttf", &flags.mttf, "TIME",
                  "mean time between failures of the whole run; prints the best save interval and "
                  "the time with failures");
    options.value("--failures", &flags.published, "NAME",
                  "published failure rate, scaled to --gpus, instead of --mttf: llama3-405b, "
                  "rsc-1024, rsc-8, opt-175b or bloom-176b (share/lm-utils/failures.txt)");
    options.value("--failure-times", &flags.times_file, "FILE",
                  "measured times between failures, one on each line, instead of --mttf");
    options.value("--failure-shape", &flags.shape, "K",
                  "shape of the Weibull distribution of the times between failures; below 1 "
                  "failures come in clusters");
    options.value("--restart-time", &flags.restart_time, "TIME",
                  "time from a failure, or the start of a job, until the training computes again");
}

void check(const FailureFlags& flags) {
    if (flags.mttf.given) check_above("--mttf", flags.mttf.value.seconds, 0);
    const char* source = flags.source();
    for (const auto& [other, given] : {std::pair{"--failures", flags.published.given},
                                       std::pair{"--failure-times", flags.times_file.given}}) {
        if (given && source != nullptr && std::string_view(source) != other) {
            usage_error(other, "states the times between failures, as {} does: give one of them",
                        source);
        }
    }
    for (const auto& [flag, given] : {std::pair{"--failure-shape", flags.shape.given},
                                      std::pair{"--restart-time", flags.restart_time.given}}) {
        if (given && source == nullptr)
            usage_error(flag, "needs --mttf, --failures or --failure-times");
    }
    check_from_to("--failure-shape", flags.shape.value, 0.2, 10);
    if (!flags.times_file.value.empty() && flags.shape != 1)
        usage_error("--failure-shape", "has no effect with --failure-times: give one of them");
}

GoodputReport report_goodput(const FailureFlags& flags, const RunWithoutFailures& run) {
    if (run.save_s <= 0)
        usage_error(flags.source(),
                    "needs --save-time, the time that the training stops for one save");
    const Failures failures = resolve_failures(flags, as_double(run.n_gpus));
    const cost::GoodputPlan plan{.work_s = run.work_s,
                                 .save_s = run.save_s,
                                 .restart_s = flags.restart_time.value.seconds,
                                 .job_s = run.job_s,
                                 .queue_s = run.queue_s,
                                 .failures = failures.times};
    check_advances(plan, flags.source());
    const double best_s = cost::best_interval_s(plan);
    const double interval_s =
        run.save_interval ? as_double(*run.save_interval) * run.step_s : best_s;
    // The number of runs is such that all runs together have about a million failures, but at least
    // 20 and at most 10,000.
    const double expected = run.work_s / plan.failures.mean_s;
    const i64 n_runs = std::clamp(static_cast<i64>(1e6 / (expected + 1)), i64{20}, i64{10'000});
    const cost::GoodputRuns runs = cost::simulate_goodput(plan, interval_s, n_runs);
    if (run.save_interval) compare_intervals(plan, run, best_s, runs.mean.total_s(), n_runs);
    GoodputReport report{.running_s = runs.mean.running_s(), .total_s = runs.mean.total_s()};
    add_seconds(report.figures, "mttf", "time between failures", plan.failures.mean_s,
                failures.source);
    add_interval_figures(report.figures, plan, best_s, run.step_s);
    add_seconds(report.figures, "interval", "interval of the following figures", interval_s,
                run.save_interval ? "--save-interval x time of an iteration" : "the best interval");
    add_time_figures(report.figures, runs);
    if (has_constant_rate(plan.failures)) {
        add_seconds(report.figures, "closed_form", "time with failures, closed form",
                    cost::expected_goodput(plan, interval_s).total_s(),
                    "M exp(R / M) (exp((t + C) / M) - 1) work / t at interval t, R = "
                    "--restart-time, and the stops of jobs; Daly 2006, equation 20; for failures "
                    "at a constant rate");
    }
    return report;
}

}  // namespace lm::estimate
