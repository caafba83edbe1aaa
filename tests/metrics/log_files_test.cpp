// SPDX-License-Identifier: Apache-2.0
// Logs of one training that have lines in common, are given in any order, or lack lines.
#include "metrics/log_files.hpp"

#include <fmt/format.h>

#include <fstream>

#include "metrics/log_summary.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;
using namespace lm::metrics;

namespace {

using Log = std::vector<std::string>;

std::string date_of(i64 unix_time) {
    return fmt::format("2026-01-{:02} {:02}:{:02}:{:02}", 1 + unix_time / 86400,
                       unix_time / 3600 % 24, unix_time / 60 % 60, unix_time % 60);
}

// The line of an iteration. An iteration that is computed again prints the same text.
std::string iteration_line(i64 n) {
    return fmt::format(
        " iteration {:8}/    1000 | consumed samples: {:12} | elapsed time per iteration (ms): "
        "2000.0 | global batch size:     8 | lm loss: {}.0E+00 |",
        n, n * 8, n);
}

// The log of a job that starts at time `now`, resumes after iteration `before`, and ends after
// iteration `last`. Its restart takes 40 s, an iteration 2 s. Without `stamped` it has no time.
Log job(i64& now, i64 before, i64 last, bool stamped) {
    Log log;
    if (stamped) log.push_back("[after megatron is initialized] datetime: " + date_of(now) + " ");
    now += 40;
    if (before > 0)
        log.push_back(
            fmt::format("  successfully loaded checkpoint from x at iteration {}", before));
    for (i64 n = before + 1; n <= last; ++n) {
        now += 2;
        log.push_back((stamped ? "[" + date_of(now) + "] " : "") + iteration_line(n));
        log.emplace_back("time (ms)");
        if (n % 50 == 0)
            log.push_back(
                fmt::format(" validation loss at iteration {} | lm loss value: 1.0 |", n));
    }
    if (stamped) {
        now += 1;
        log.push_back(
            fmt::format("[exiting program at iteration {}] datetime: {} ", last, date_of(now)));
    }
    return log;
}

Log joined(const Log& a, const Log& b) {
    Log log = a;
    log.insert(log.end(), b.begin(), b.end());
    return log;
}

Log part(const Log& log, double from, double to) {
    const auto at = [&](double share) {
        return log.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(log.size()));
    };
    return {at(from), at(to)};
}

LogSummary summary_of(const std::vector<Log>& logs) {
    const test::TempDir dir;
    std::vector<std::string> paths;
    for (const Log& log : logs) {
        paths.push_back(dir / fmt::format("{}.log", paths.size()));
        std::ofstream file(paths.back());
        for (const std::string& line : log) file << line << '\n';
    }
    LogReader reader({.window = 100, .least_gap_s = 600});
    if (logs.size() > 1) reader.skip_overlaps();
    for (const LogHead& head : in_order(paths)) {
        reader.begin_log(head.first);
        std::ifstream file(head.path);
        for (std::string line; std::getline(file, line);) reader.add(line);
    }
    return reader.summary();
}

void check_same(const LogSummary& a, const LogSummary& b) {
    CHECK(a.last->iteration == b.last->iteration);
    CHECK(a.rates.sums().iterations == b.rates.sums().iterations);
    CHECK(a.stops.n_restarts == b.stops.n_restarts);
    CHECK(a.stops.repeated_iterations == b.stops.repeated_iterations);
    const TimeUse use = a.time_use;
    const TimeUse other = b.time_use;
    CHECK(use.useful_s == Approx(other.useful_s));
    CHECK(use.repeated_s == Approx(other.repeated_s));
    CHECK(use.evaluation_s == Approx(other.evaluation_s));
    CHECK(use.restarting_s == Approx(other.restarting_s));
    CHECK(use.waiting_s == Approx(other.waiting_s));
    CHECK(use.total_s() == Approx(other.total_s()));
}

}  // namespace

TEST_CASE("the lines that two logs have in common are counted once") {
    for (const bool stamped : {true, false}) {
        CAPTURE(stamped);
        i64 now = 0;
        const Log first = job(now, 0, 100, stamped);
        now += 7200;
        const Log second = job(now, 80, 200, stamped);  // computes 81 to 100 again
        const LogSummary truth = summary_of({first, second});
        CHECK(truth.lines.overlapping == 0);
        CHECK(truth.rates.sums().iterations == 220);
        CHECK(truth.stops.repeated_iterations == 20);
        CHECK(truth.stops.n_restarts == 1);
        CHECK(truth.time_use.repeated_s == Approx(40));
        if (stamped) {
            CHECK(truth.time_use.waiting_s == Approx(7200));
            CHECK(truth.time_use.restarting_s == Approx(80));
        }
        const Log both = joined(first, second);
        const std::vector<std::vector<Log>> overlapping = {
            {first, second, first},
            {second, first, first, second},
            {both, first, second},
            {first, both},
            {part(first, 0, 0.6), first, second},
            {first, second, part(second, 0, 0.4)},
            {first, second, part(second, 0.5, 1)},
            {part(first, 0, 0.7), part(first, 0.4, 1), second},
        };
        for (size_t i = 0; i < overlapping.size(); ++i) {
            CAPTURE(i);
            const LogSummary log = summary_of(overlapping[i]);
            CHECK(log.lines.overlapping > 0);
            check_same(log, truth);
        }
    }
}

TEST_CASE("a copy without the stamps of another log is recognized by its text") {
    i64 now = 0;
    const Log log = job(now, 0, 100, true);
    Log tee;
    for (const std::string& line : log) {
        const size_t at = line.find(" iteration ");
        if (line.starts_with("[2026") && at != line.npos) tee.push_back(line.substr(at));
    }
    REQUIRE(tee.size() == 100);
    for (const std::vector<Log>& logs : {std::vector{log, tee}, std::vector{tee, log}}) {
        const LogSummary both = summary_of(logs);
        CHECK(both.lines.overlapping == 100);
        check_same(both, summary_of({log}));
    }
}

TEST_CASE("a log of --log-json and the text of the same run count once") {
    i64 now = 0;
    const Log text = joined(job(now, 0, 100, false), job(now, 80, 150, false));
    Log json;
    i64 n = 0;
    for (const std::string& line : text) {
        if (line.find("loaded") != line.npos) {
            json.push_back(fmt::format(R"({{"kind":"resume","time":{},"iteration":80}})", now));
            n = 80;
        } else if (line.starts_with(" iteration ")) {
            ++n;
            now += 2;
            json.push_back(fmt::format(
                R"({{"kind":"step","time":{},"iteration":{},"total_iterations":1000,"step_s":2,)"
                R"("consumed_samples":{},"global_batch_size":8,"lm_loss":{}}})",
                now, n, n * 8, n));
        }
    }
    const LogSummary truth = summary_of({json});
    CHECK(truth.rates.sums().iterations == 170);
    CHECK(truth.stops.n_restarts == 1);
    check_same(summary_of({json, text}), truth);
    check_same(summary_of({text, json}), truth);
}

TEST_CASE("logs are read in the order of time, or of their iterations") {
    for (const bool stamped : {true, false}) {
        CAPTURE(stamped);
        i64 now = 0;
        const Log a = job(now, 0, 100, stamped);
        const Log b = job(now, 90, 200, stamped);
        const Log c = job(now, 200, 300, stamped);
        const LogSummary truth = summary_of({a, b, c});
        CHECK(truth.rates.sums().iterations == 310);
        check_same(summary_of({c, a, b}), truth);
        check_same(summary_of({b, c, a}), truth);
    }
}

TEST_CASE("the pause before a log that does not state its start is time of waiting") {
    i64 now = 0;
    const Log first = job(now, 0, 100, true);
    now += 7200;
    const Log second = job(now, 100, 200, true);
    const LogSummary truth = summary_of({first, second});
    // The second log lacks the lines before its first iteration, as the output of `tail` may. The
    // restart of the first job took 40 s, and the second restart counts as long.
    const Log cut(second.begin() + 2, second.end());
    const LogSummary log = summary_of({first, cut});
    CHECK(log.stops.n_unseen_starts == 1);
    check_same(log, truth);
    // If no log states its start, the whole pause counts as waiting.
    const Log silent(first.begin() + 1, first.end());
    const TimeUse use = summary_of({silent, cut}).time_use;
    CHECK(use.restarting_s == 0);
    CHECK(use.waiting_s == Approx(7200 + 40));
    // A log that continues without a pause is a part of the same run.
    CHECK(summary_of({part(first, 0, 0.5), part(first, 0.5, 1)}).stops.n_restarts == 0);
}

TEST_CASE("a restart between logs without time stamps is not visible: the log counts as unclear") {
    i64 now = 0;
    const Log first = job(now, 0, 100, false);
    Log second = job(now, 100, 200, false);
    CHECK(summary_of({first, second}).stops.n_unclear_logs == 0);  // it states a loaded checkpoint
    CHECK(summary_of({first, second}).stops.n_restarts == 1);
    second.erase(second.begin());
    const LogSummary log = summary_of({first, second});
    CHECK(log.stops.n_unclear_logs == 1);
    CHECK(log.stops.n_restarts == 0);
    CHECK(log.rates.sums().iterations == 200);
}
