// SPDX-License-Identifier: Apache-2.0
#include "cost/goodput.hpp"

#include <cmath>

#include "base/error.hpp"
#include "io/file.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::cost;

namespace {

constexpr double hour = 3600, day = 86400;

GoodputPlan plan_of(double mttf_s, double restart_s) {
    GoodputPlan plan{.work_s = 30 * day, .save_s = 40, .restart_s = restart_s};
    plan.failures.mean_s = mttf_s;
    return plan;
}

double relative(double a, double b) {
    return std::abs(a / b - 1);
}

}  // namespace

TEST_CASE("the intervals of Young and Daly") {
    // sqrt(2 x 40 s x 28440 s), and Daly's terms by hand.
    CHECK(young_interval_s(40, 7.9 * hour) == Approx(1508.37).margin(0.01));
    CHECK(daly_interval_s(40, 7.9 * hour) ==
          Approx(1508.37 * (1 + std::sqrt(40 / 56880.0) / 3 + 40 / 56880.0 / 9) - 40).margin(0.01));
    CHECK(daly_interval_s(100, 40) == 40);
}

TEST_CASE("the closed form is within 2 % of simulated runs") {
    for (const double mttf_s : {0.5 * hour, 3 * hour, 7.9 * hour, 7 * day}) {
        for (const double restart_s : {0.0, 300.0, 900.0}) {
            const GoodputPlan plan = plan_of(mttf_s, restart_s);
            const double daly_s = daly_interval_s(plan.save_s, mttf_s);
            for (const double interval_s : {daly_s / 3, daly_s, 3 * daly_s}) {
                const GoodputRuns runs = simulate_goodput(plan, interval_s, 500);
                const Goodput expected = expected_goodput(plan, interval_s);
                INFO(mttf_s << " " << restart_s << " " << interval_s);
                CHECK(relative(expected.total_s(), runs.mean.total_s()) < 0.02);
                CHECK(std::abs(expected.repeated_s - runs.mean.repeated_s) <
                      0.02 * runs.mean.total_s());
                CHECK(runs.p10_s <= runs.mean.total_s());
                CHECK(runs.mean.total_s() <= runs.p90_s);
            }
        }
    }
}

TEST_CASE("the closed form is within 2 % of simulated runs with limits of jobs") {
    GoodputPlan plan = plan_of(7.9 * hour, 900);
    plan.queue_s = 2 * hour;
    for (const double job_s : {3 * hour, 20 * hour, 100 * hour}) {
        plan.job_s = job_s;
        const double interval_s = daly_interval_s(plan.save_s, plan.failures.mean_s);
        const GoodputRuns runs = simulate_goodput(plan, interval_s, 500);
        CHECK(relative(expected_goodput(plan, interval_s).total_s(), runs.mean.total_s()) < 0.02);
        CHECK(runs.mean.queue_s == Approx(runs.mean.job_stops * plan.queue_s));
    }
}

TEST_CASE("the closed form is within 2 % when jobs, saves and restarts are of one order") {
    for (const double job_s : {2.5 * hour, 4 * hour, 9 * hour}) {
        for (const double restart_s : {0.25 * hour, 1 * hour}) {
            for (const double interval_s : {0.5 * hour, 1 * hour, 3 * hour}) {
                for (const double mttf_s : {2 * hour, 8 * hour, 100 * hour}) {
                    GoodputPlan plan = plan_of(mttf_s, restart_s);
                    plan.save_s = 300;
                    plan.job_s = job_s;
                    plan.queue_s = hour;
                    const Goodput mean = simulate_goodput(plan, interval_s, 200).mean;
                    const Goodput expected = expected_goodput(plan, interval_s);
                    INFO(job_s << " " << restart_s << " " << interval_s << " " << mttf_s);
                    CHECK(relative(expected.total_s(), mean.total_s()) < 0.02);
                    CHECK(relative(expected.failures, mean.failures) < 0.03);
                    for (const auto part : {&Goodput::saving_s, &Goodput::repeated_s,
                                            &Goodput::restarting_s, &Goodput::queue_s})
                        CHECK(std::abs(expected.*part - mean.*part) < 0.02 * mean.total_s());
                }
            }
        }
    }
}

TEST_CASE("without failures only saves, restarts and queues take time") {
    GoodputPlan plan{.work_s = 100 * hour, .save_s = 36, .restart_s = 360, .queue_s = 1000};
    plan.failures.mean_s = 1e12;
    GoodputRuns runs = simulate_goodput(plan, hour, 3);
    CHECK(runs.mean.saving_s == Approx(100 * 36));
    CHECK(runs.mean.total_s() == Approx(100 * hour + 3600));
    CHECK(runs.error_s < 1e-6);
    // Jobs of 20.09 h: the first one has 19 saves and 19.81 h of work, the others also have a
    // restart.
    plan.job_s = 20.09 * hour;
    runs = simulate_goodput(plan, hour, 1);
    CHECK(runs.mean.job_stops == 5);
    CHECK(runs.mean.restarting_s == Approx(5 * 360));
    CHECK(runs.mean.queue_s == Approx(5000));
    CHECK(runs.mean.repeated_s == 0);
    CHECK(runs.mean.work_s == 100 * hour);
}

TEST_CASE("the simulated best interval is Daly's for a constant rate, longer for clusters") {
    GoodputPlan plan = plan_of(7.9 * hour, 900);
    const double daly_s = daly_interval_s(plan.save_s, plan.failures.mean_s);
    const double best_s = best_interval_s(plan);
    CHECK(relative(best_s, daly_s) < 0.35);
    const auto total_s = [&](double interval_s) {
        return simulate_goodput(plan, interval_s, 500).mean.total_s();
    };
    CHECK(total_s(best_s) < 1.002 * total_s(daly_s));
    CHECK(total_s(best_s) < total_s(8 * daly_s));
    CHECK(total_s(best_s) < total_s(daly_s / 8));
    // Failures in clusters lose less work than failures at a constant rate with the same mean.
    const double constant_s = total_s(best_s);
    plan.failures.shape = 0.6;
    CHECK(total_s(best_interval_s(plan)) < constant_s);
}

TEST_CASE("the draws have the mean of their distribution") {
    for (const double shape : {0.6, 1.0, 2.0}) {
        const FailureTimes times{.mean_s = 1000, .shape = shape, .measured_s = {}};
        double sum = 0;
        constexpr u64 n = 200'000;
        for (u64 i = 0; i < n; ++i) sum += draw_failure_s(times, 7, i);
        CHECK(relative(sum / n, 1000) < 0.02);
    }
    const FailureTimes measured = parse_failure_times("f", "1h # first\n\n  30m\n90m\n");
    CHECK(measured.mean_s == hour);
    for (u64 i = 0; i < 100; ++i) {
        const double drawn = draw_failure_s(measured, 0, i);
        CHECK((drawn == hour || drawn == 1800 || drawn == 5400));
    }
}

TEST_CASE("published failure rates") {
    const std::string path = std::string(LM_SHARE_DIR) + "/failures.txt";
    const std::vector<FailureRate> rates = parse_failure_rates(path, io::read_file(path));
    REQUIRE(rates.size() == 5);
    // Llama 3: 419 unplanned interruptions in 54 days on 16,384 GPUs.
    CHECK(rates[0].name == "llama3-405b");
    CHECK(rates[0].mean_s(16384) == Approx(54 * day / 419));
    CHECK(rates[0].mean_s(8192) == Approx(2 * 54 * day / 419));
    CHECK(rates[1].mean_s(1024) == Approx(7.9 * hour));
    for (const FailureRate& rate : rates) CHECK(rate.source.find("arXiv") == 0);
    CHECK_THROWS_WITH(parse_failure_rates("f", "a 1 2 # x"),
                      HasInOrder("f:1: ", "NAME GPUS FAILURES HOURS # SOURCE"));
    CHECK_THROWS_WITH(parse_failure_rates("f", "\na 1 2 3"),
                      HasInOrder("f:2: ", "NAME GPUS FAILURES HOURS # SOURCE"));
    CHECK_THROWS_AS(parse_failure_rates("f", "a 1 0 3 # x"), Error);
    CHECK_THROWS_WITH(parse_failure_times("f", "# none\n"), StartsWith("f: "));
    CHECK_THROWS_AS(parse_failure_times("f", "1h 2h"), Error);
    CHECK_THROWS_AS(parse_failure_times("f", "soon"), Error);
}
