// SPDX-License-Identifier: Apache-2.0
#include "cost/goodput.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "base/error.hpp"
#include "base/rng.hpp"
#include "base/units.hpp"

namespace lm::cost {

namespace {

std::vector<std::string_view> words_of(std::string_view text) {
    constexpr std::string_view blanks = " \t\r";
    std::vector<std::string_view> words;
    for (size_t at = 0; (at = text.find_first_not_of(blanks, at)) != text.npos;) {
        const size_t end = std::min(text.find_first_of(blanks, at), text.size());
        words.push_back(text.substr(at, end - at));
        at = end;
    }
    return words;
}

// Calls `each` with the place, the words and the comment of each line that has words.
void for_each_entry(
    const std::string& path, std::string_view text,
    const std::function<void(const std::string& place, const std::vector<std::string_view>& words,
                             std::string_view comment)>& each) {
    for (i64 number = 1; !text.empty(); ++number) {
        const std::string_view line = text.substr(0, text.find('\n'));
        const size_t hash = std::min(line.find('#'), line.size());
        const std::vector<std::string_view> words = words_of(line.substr(0, hash));
        if (!words.empty()) {
            std::string_view comment = line.substr(std::min(hash + 1, line.size()));
            comment.remove_prefix(std::min(comment.find_first_not_of(' '), comment.size()));
            each(fmt::format("{}:{}", path, number), words, comment);
        }
        text.remove_prefix(std::min(line.size() + 1, text.size()));
    }
}

double positive(const std::string& place, std::string_view text) {
    const double value = parse_number(place, text);
    if (!(value > 0)) usage_error(place, "{} is not above 0", value);
    return value;
}

}  // namespace

double draw_failure_s(const FailureTimes& times, u64 run, u64 index) {
    const double u = uniform(mix(stream_key(0, "failures"), run), index);
    if (!times.measured_s.empty()) {
        const double n = as_double(times.measured_s.size());
        return times.measured_s[static_cast<size_t>(u * n)];
    }
    // The mean of a Weibull distribution is its scale x Gamma(1 + 1 / shape).
    const double scale = times.mean_s / std::tgamma(1 + 1 / times.shape);
    return scale * std::pow(-std::log1p(-u), 1 / times.shape);
}

std::vector<FailureRate> parse_failure_rates(const std::string& path, std::string_view text) {
    std::vector<FailureRate> rates;
    for_each_entry(path, text, [&rates](const auto& place, const auto& words, auto comment) {
        if (words.size() != 4 || comment.empty())
            usage_error(place, "expected NAME GPUS FAILURES HOURS # SOURCE");
        rates.push_back({.name = std::string(words[0]),
                         .gpus = positive(place, words[1]),
                         .failures = positive(place, words[2]),
                         .hours = positive(place, words[3]),
                         .source = std::string(comment)});
    });
    return rates;
}

FailureTimes parse_failure_times(const std::string& path, std::string_view text) {
    FailureTimes times;
    for_each_entry(path, text, [&times](const auto& place, const auto& words, auto) {
        if (words.size() != 1)
            usage_error(place, "expected one duration in a line, got {} words", words.size());
        const double seconds = parse_duration(place, words[0]);
        if (!(seconds > 0)) usage_error(place, "{} is not above 0", words[0]);
        times.measured_s.push_back(seconds);
    });
    if (times.measured_s.empty())
        usage_error(path, "has no time between failures: write one duration in each line");
    times.mean_s = std::accumulate(times.measured_s.begin(), times.measured_s.end(), 0.0) /
                   as_double(times.measured_s.size());
    return times;
}

namespace {

// One run in virtual time.
class SimulatedRun {
  public:
    SimulatedRun(const GoodputPlan& plan, double interval_s, u64 run)
        : plan_(plan), interval_s_(interval_s), run_(run) {
        draw_failure();
    }

    Goodput finish() {
        times_.work_s = plan_.work_s;
        while (!compute()) {
            while (!restart()) {
            }
        }
        return times_;
    }

  private:
    void draw_failure() { to_failure_s_ = draw_failure_s(plan_.failures, run_, n_drawn_++); }

    // Advances the running time by `seconds` without a failure.
    void run_for(double seconds) {
        to_failure_s_ -= seconds;
        in_job_s_ += seconds;
    }

    void fail() {
        in_job_s_ += to_failure_s_;
        times_.failures += 1;
        draw_failure();
    }

    double job_left_s() const { return plan_.job_s ? *plan_.job_s - in_job_s_ : 1e300; }

    void start_next_job() {
        times_.queue_s += plan_.queue_s;
        times_.job_stops += 1;
        in_job_s_ = 0;
    }

    // Starts the program. Returns false when the program fails, or its job ends, before it
    // computes.
    bool restart() {
        const double seconds = std::min({plan_.restart_s, to_failure_s_, job_left_s()});
        times_.restarting_s += seconds;
        if (seconds == to_failure_s_) {
            fail();
            return false;
        }
        run_for(seconds);
        if (seconds == plan_.restart_s) return true;
        start_next_job();
        return false;
    }

    // Computes until the end of the training (returns true), a failure, or the limit of the job.
    bool compute() {
        const double left_s = plan_.work_s - saved_s_;
        const double saves = std::ceil(left_s / interval_s_);
        const double end_s = left_s + saves * plan_.save_s;
        // A job ends with a save of the work since the previous save.
        const double to_stop_s = std::max(0.0, job_left_s() - plan_.save_s);
        if (end_s <= std::min(to_failure_s_, to_stop_s)) {
            times_.saving_s += saves * plan_.save_s;
            return true;
        }
        const double cycle_s = interval_s_ + plan_.save_s;
        if (to_failure_s_ < to_stop_s + plan_.save_s) {
            const double cycles = std::min(saves - 1, std::floor(to_failure_s_ / cycle_s));
            saved_s_ += cycles * interval_s_;
            times_.saving_s += cycles * plan_.save_s;
            times_.repeated_s += to_failure_s_ - cycles * cycle_s;
            fail();
            return false;
        }
        const double cycles = std::min(saves - 1, std::floor(to_stop_s / cycle_s));
        const double rest_s = to_stop_s - cycles * cycle_s;
        const double work_s =
            std::min(rest_s, std::min(interval_s_, left_s - cycles * interval_s_));
        saved_s_ += cycles * interval_s_ + work_s;
        times_.saving_s += (cycles + 1) * plan_.save_s + rest_s - work_s;
        run_for(to_stop_s + plan_.save_s);
        start_next_job();
        return false;
    }

    const GoodputPlan& plan_;
    const double interval_s_;
    const u64 run_;
    u64 n_drawn_ = 0;
    double saved_s_ = 0;       // work in the last complete save
    double to_failure_s_ = 0;  // running time until the next failure
    double in_job_s_ = 0;      // since the job began
    Goodput times_;
};

Goodput& operator+=(Goodput& sum, const Goodput& more) {
    sum.work_s += more.work_s;
    sum.saving_s += more.saving_s;
    sum.repeated_s += more.repeated_s;
    sum.restarting_s += more.restarting_s;
    sum.queue_s += more.queue_s;
    sum.failures += more.failures;
    sum.job_stops += more.job_stops;
    return sum;
}

Goodput divided(Goodput sum, double n) {
    return {sum.work_s / n,  sum.saving_s / n, sum.repeated_s / n, sum.restarting_s / n,
            sum.queue_s / n, sum.failures / n, sum.job_stops / n};
}

}  // namespace

double young_interval_s(double save_s, double mttf_s) {
    return std::sqrt(2 * save_s * mttf_s);
}

double daly_interval_s(double save_s, double mttf_s) {
    if (save_s >= 2 * mttf_s) return mttf_s;
    const double ratio = save_s / (2 * mttf_s);
    return young_interval_s(save_s, mttf_s) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - save_s;
}

namespace {

// Returns the expected time of a training without limits of jobs. A restart follows each failure
// (Daly 2006, equation 20). The mean time between failures is M = mean_s. A restart succeeds with
// the probability exp(-restart_s / M).
Goodput without_jobs(const GoodputPlan& plan, double work_s, double interval_s) {
    const double m = plan.failures.mean_s;
    const double interval = std::min(interval_s, work_s);
    if (!(interval > 0)) return {};
    const double cycles = work_s / interval;
    const double total_s =
        m * std::exp(plan.restart_s / m) * std::expm1((interval + plan.save_s) / m) * cycles;
    Goodput times{.work_s = work_s,
                  .saving_s = cycles * plan.save_s,
                  .restarting_s = total_s * -std::expm1(-plan.restart_s / m),
                  .failures = total_s / m};
    times.repeated_s = total_s - times.work_s - times.saving_s - times.restarting_s;
    return times;
}

// The seconds that a job, or a part of a job, spends on each activity.
struct JobYield {
    double work_s = 0, saving_s = 0, restarting_s = 0;
    void add(const JobYield& more, double weight) {
        work_s += weight * more.work_s;
        saving_s += weight * more.saving_s;
        restarting_s += weight * more.restarting_s;
    }
};

// Returns the yield of `seconds` that begin with a start of `restart_s` and end with a failure.
JobYield before_failure(const GoodputPlan& plan, double interval_s, double restart_s,
                        double seconds) {
    const double cycles =
        std::floor(std::max(0.0, seconds - restart_s) / (interval_s + plan.save_s));
    return {cycles * interval_s, cycles * plan.save_s, std::min(restart_s, seconds)};
}

// Returns the yield of `seconds` that begin with a start of `restart_s` and end with the end of the
// job. The job ends with a save of the work since the previous save.
JobYield before_job_end(const GoodputPlan& plan, double interval_s, double restart_s,
                        double seconds) {
    const double to_stop_s = seconds - restart_s - plan.save_s;
    JobYield yield = before_failure(plan, interval_s, restart_s, restart_s + to_stop_s);
    yield.restarting_s = std::min(restart_s, seconds);
    if (to_stop_s <= 0) return yield;
    const double rest_s = to_stop_s - yield.work_s / interval_s * (interval_s + plan.save_s);
    yield.work_s += std::min(rest_s, interval_s);
    yield.saving_s += plan.save_s + std::max(0.0, rest_s - interval_s);
    return yield;
}

// The expected yields of the first job, which computes at once, and of a later job, which begins
// with a restart. Failures divide a job into segments. g(t) is the expected yield of a segment that
// begins t seconds before the end of the job. Failures are a Poisson process with the mean time
// M = mean_s between failures, so a segment begins within dt with the probability dt / M. A job of
// J seconds therefore yields g(J), its first segment, + (1/M) x the integral of g over [0, J].
struct JobYields {
    JobYield first, later;
};

JobYields job_yields(const GoodputPlan& plan, double interval_s) {
    const double m = plan.failures.mean_s;
    const double job_s = *plan.job_s;
    const double finest_s = std::min({interval_s + plan.save_s, m, job_s});
    const i64 n = std::clamp<i64>(static_cast<i64>(40 * job_s / finest_s), 400, 200'000);
    const double dt = job_s / as_double(n);
    JobYields yields;
    JobYield failed, failed_first;  // sums over failures before time t, weighted by probability
    const auto until = [&](JobYield yield, double restart_s, double t) {
        yield.add(before_job_end(plan, interval_s, restart_s, t), std::exp(-t / m));
        return yield;
    };
    for (i64 i = 0; i < n; ++i) {
        const double t = (as_double(i) + 0.5) * dt;
        const double fails = std::exp(-as_double(i) * dt / m) * -std::expm1(-dt / m);
        const JobYield yield = before_failure(plan, interval_s, plan.restart_s, t);
        JobYield half = failed;
        half.add(yield, fails / 2);
        yields.later.add(until(half, plan.restart_s, t), dt / m);
        failed.add(yield, fails);
        failed_first.add(before_failure(plan, interval_s, 0, t), fails);
    }
    yields.first = yields.later;  // the integral is equal for the first and for later jobs
    yields.first.add(until(failed_first, 0, job_s), 1);
    yields.later.add(until(failed, plan.restart_s, job_s), 1);
    return yields;
}

}  // namespace

Goodput expected_goodput(const GoodputPlan& plan, double interval_s) {
    const Goodput one_job = without_jobs(plan, plan.work_s, interval_s);
    if (!plan.job_s || one_job.total_s() <= *plan.job_s) return one_job;
    const double m = plan.failures.mean_s;
    const double interval = std::min(interval_s, plan.work_s);
    const JobYields jobs = job_yields(plan, interval);
    const double later_s = plan.work_s - jobs.first.work_s;
    const double whole = std::floor(std::max(0.0, later_s) / jobs.later.work_s);
    // The last job has the rest of the work.
    const double rest_s = std::max(0.0, later_s - whole * jobs.later.work_s);
    Goodput times = without_jobs(plan, rest_s, interval);
    const double start_s = m * std::expm1(plan.restart_s / m);
    times.restarting_s += start_s;
    times.failures += start_s / m;
    const double n_jobs = 1 + whole;
    times.job_stops = n_jobs;
    times.queue_s = n_jobs * plan.queue_s;
    times.failures += n_jobs * *plan.job_s / m;
    times.saving_s += jobs.first.saving_s + whole * jobs.later.saving_s;
    times.restarting_s += jobs.first.restarting_s + whole * jobs.later.restarting_s;
    times.work_s = plan.work_s;
    times.repeated_s += n_jobs * *plan.job_s - jobs.first.work_s - jobs.first.saving_s -
                        jobs.first.restarting_s -
                        whole * (jobs.later.work_s + jobs.later.saving_s + jobs.later.restarting_s);
    return times;
}

GoodputRuns simulate_goodput(const GoodputPlan& plan, double interval_s, i64 n_runs) {
    std::vector<double> totals;
    Goodput sum;
    for (i64 run = 0; run < n_runs; ++run) {
        const Goodput times = SimulatedRun(plan, interval_s, static_cast<u64>(run)).finish();
        sum += times;
        totals.push_back(times.total_s());
    }
    const double n = as_double(n_runs);
    GoodputRuns runs{.mean = divided(sum, n), .n_runs = n_runs};
    double squares = 0;
    for (const double total : totals) squares += std::pow(total - runs.mean.total_s(), 2);
    runs.error_s = std::sqrt(squares / std::max(1.0, n - 1) / n);
    std::ranges::sort(totals);
    runs.p10_s = totals[static_cast<size_t>(0.1 * (n - 1))];
    runs.p90_s = totals[static_cast<size_t>(std::ceil(0.9 * (n - 1)))];
    return runs;
}

double best_interval_s(const GoodputPlan& plan) {
    // Simulates a training of at most `longest`, because the share of lost time does not depend on
    // the length of the training.
    constexpr double longest = 2000;  // in mean times between failures
    constexpr i64 n_runs = 100;
    constexpr int n_steps = 24;          // tried intervals on each side of Daly's interval
    constexpr double ratio = 1.0905077;  // 2^(1/8), of adjacent intervals
    GoodputPlan part = plan;
    part.work_s = std::min(plan.work_s, longest * plan.failures.mean_s);
    const double start = daly_interval_s(plan.save_s, plan.failures.mean_s);
    double best_s = start;
    double least_s = 1e300;
    // Each mean is averaged with its neighbours, because single means have noise.
    std::vector<double> totals;
    for (int i = -n_steps - 2; i <= n_steps + 2; ++i) {
        const double interval = std::min(part.work_s, start * std::pow(ratio, i));
        totals.push_back(simulate_goodput(part, interval, n_runs).mean.total_s());
    }
    for (size_t i = 2; i + 2 < totals.size(); ++i) {
        const double mean =
            (totals[i - 2] + totals[i - 1] + totals[i] + totals[i + 1] + totals[i + 2]) / 5;
        if (mean >= least_s) continue;
        least_s = mean;
        best_s = start * std::pow(ratio, as_double(static_cast<i64>(i)) - n_steps - 2);
    }
    return std::min(best_s, plan.work_s);
}

}  // namespace lm::cost
