// SPDX-License-Identifier: Apache-2.0
#include "metrics/log_summary.hpp"

#include <fmt/format.h>

#include "support/catch.hpp"

using namespace lm;
using namespace lm::metrics;

namespace {

struct Line {
    i64 iteration;
    i64 samples;
    i64 batch = 8;
    double step_s = 2;
    std::string prefix = "";
};

void add(LogReader& log, const Line& line) {
    log.add(fmt::format(
        "{} iteration {:8}/    1000 | consumed samples: {:12} | consumed tokens: {:12} | elapsed "
        "time per iteration (ms): {:.1f} | global batch size: {:5} | lm loss: {}E+00 | TFLOPs: "
        "100.00 |",
        line.prefix, line.iteration, line.samples, line.samples * 16, line.step_s * 1000,
        line.batch, line.iteration));
}

// Adds the lines of iterations first, first + 10, ..., last of one run with batch size 8.
void add_run(LogReader& log, i64 first, i64 last, double step_s = 2) {
    for (i64 i = first; i <= last; i += 10) add(log, {i, i * 8, 8, step_s});
}

std::string stamped(i64 unix_time) {
    return fmt::format("[2026-01-{:02} {:02}:{:02}:{:02}]", 1 + unix_time / 86400,
                       unix_time / 3600 % 24, unix_time / 60 % 60, unix_time % 60);
}

LogReader new_log() {
    return LogReader({.window = 100, .least_gap_s = 600});
}

}  // namespace

TEST_CASE("a run without stops") {
    LogReader log = new_log();
    CHECK(log.summary().empty());
    add_run(log, 10, 200);
    CHECK(log.summary().last->iteration == 200);
    CHECK(log.summary().lines.logged == 20);
    CHECK(log.summary().rates.recent().mean_step_s() == Approx(2));
    CHECK(log.summary().rates.recent().mean_batch() == Approx(8));
    CHECK(*log.summary().rates.tokens_per_sample() == Approx(16));
    CHECK(log.summary().stops.newest.empty());
    CHECK(!log.summary().wall_s);
    CHECK(log.summary().rates.sums().flops / log.summary().rates.sums().flops_s == Approx(100e12));
}

TEST_CASE("the rate uses the last lines of one batch size, without the first of a run") {
    LogReader log({.window = 3, .least_gap_s = 600});
    add(log, {10, 80, 8, 99});
    SECTION("the first line counts when there is no other") {
        CHECK(log.summary().rates.recent().mean_step_s() == Approx(99));
        return;
    }
    add(log, {20, 160, 8, 2});
    CHECK(log.summary().rates.recent().mean_step_s() == Approx(2));
    for (i64 i = 3; i < 9; ++i) add(log, {i * 10, i * 80, 8, static_cast<double>(i)});
    CHECK(log.summary().rates.recent().mean_step_s() == Approx(7));
    add(log, {90, 800, 16, 20});
    CHECK(log.summary().rates.recent().mean_step_s() == Approx(20));
}

TEST_CASE("a restart repeats the iterations since the checkpoint") {
    LogReader log = new_log();
    add_run(log, 10, 150);
    SECTION("that the log names") {
        log.add("  successfully loaded checkpoint from x at iteration 103");
        add_run(log, 110, 200, 2.1);
        CHECK(log.summary().stops.repeated_iterations == 47);
        CHECK(log.summary().stops.newest.front().resumed_after == 103);
        CHECK(log.summary().stops.repeated_s == Approx(94));
    }
    SECTION("that nothing names") {
        add_run(log, 110, 200, 2.1);
        CHECK(log.summary().stops.repeated_iterations == 50);
        CHECK(log.summary().stops.newest.front().resumed_after == 100);
    }
    SECTION("of the last iteration: nothing is lost") {
        log.add("[after megatron is initialized] datetime: 2021-08-08 01:00:51 ");
        add_run(log, 160, 200);
        CHECK(log.summary().stops.repeated_iterations == 0);
        CHECK(log.summary().stops.newest.front().resumed_after == 150);
    }
    CHECK(log.summary().stops.n_restarts == 1);
    REQUIRE(log.summary().stops.newest.size() == 1);
    CHECK(log.summary().stops.newest.front().restarted);
    CHECK(log.summary().stops.newest.front().last_iteration == 150);
}

TEST_CASE("the time of a generated log, whose truth is known, is accounted exactly") {
    LogReader log = new_log();
    double now = 1e9;
    const auto event = [&](const char* kind, double seconds, const char* fields) {
        now += seconds;
        log.add(fmt::format(R"({{"kind":"{}","time":{},"generation":1{}}})", kind, now, fields));
    };
    const auto steps = [&](i64 last, double step_s, i64 skipped = 0, i64 nan = 0) {
        now += 10 * step_s;
        log.add(fmt::format(
            R"({{"kind":"step","time":{},"iteration":{},"total_iterations":500,"step_s":{},)"
            R"("consumed_samples":{},"global_batch_size":8,"skipped_iterations":{},)"
            R"("nan_iterations":{}}})",
            now, last, step_s, last * 8, skipped, nan));
    };
    event("start", 0, R"(,"nodes":"n[01-04,7],x")");
    now += 50;  // loading
    for (i64 last = 10; last <= 100; last += 10) steps(last, 2 + 0.01 * static_cast<double>(last));
    event("validation", 30, R"(,"iteration":100,"elapsed_s":30)");
    event("save", 12, R"(,"iteration":100,"elapsed_s":12)");
    steps(110, 2, 3);
    steps(120, 2, 1, 2);  // two nan iterations, one of them skipped
    // An asynchronous save blocks for 4 s and is complete in the middle of the next steps.
    now += 4;
    event("save", 7, R"(,"iteration":120,"elapsed_s":11,"blocked_s":4)");
    now -= 7;
    steps(130, 2);
    steps(140, 3, 10);
    // A node fails after 5 s of unlogged work; the next job waits an hour.
    event("error", 5, "");
    event("start", 3600, "");
    event("resume", 20, R"(,"iteration":125)");
    now += 40 - 5 * 4;
    steps(130, 4);  // five iterations that follow 125: 20 s
    event("clock", 8, "");
    const TimeUse use = log.summary().time_use;
    // Discarded iterations: 126 to 130 of 2 s each, and 131 to 140 of 3 s each, all skipped.
    CHECK(use.repeated_s == Approx(5 * 2 + 10 * 3));
    CHECK(use.repeated == 15);
    double first = 0;
    for (i64 last = 10; last <= 100; last += 10) first += 20 + 0.1 * static_cast<double>(last);
    CHECK(use.useful_s == Approx(first + 2 * 7 + 2 * 8 + 2 * 5 + 4 * 5));
    CHECK(use.skipped_s == Approx(2 * 3));
    CHECK(use.nan_s == Approx(2 * 2));
    CHECK(use.skipped == 3);
    CHECK(use.nan == 2);
    CHECK(use.evaluation_s == Approx(30));
    CHECK(use.saving_s == Approx(12 + 4));
    CHECK(use.restarting_s == Approx(50 + 60));
    CHECK(use.waiting_s == Approx(3600));
    CHECK(use.total_s() == Approx(*log.summary().wall_s));
    CHECK(log.summary().n_nodes == 6);
    CHECK(log.summary().stops.repeated_s == Approx(use.repeated_s));
}

TEST_CASE("the event of a start is written later than the program started") {
    LogReader log = new_log();
    const auto event = [&log](const char* kind, i64 time, const char* fields) {
        log.add(fmt::format(R"({{"kind":"{}","time":{},"iteration":10{}}})", kind, time, fields));
    };
    const auto step = [&log](i64 iteration, i64 time) {
        log.add(fmt::format(R"({{"kind":"step","time":{},"iteration":{},"total_iterations":90,)"
                            R"("step_s":2,"global_batch_size":8}})",
                            time, iteration));
    };
    event("start", 1000, R"(,"elapsed_s":30)");
    step(5, 1015);
    step(10, 1025);
    event("stop", 1026, "");
    // The program starts at 1100 and loads for 200 s.
    event("start", 1300, R"(,"elapsed_s":200)");
    event("resume", 1300, "");
    step(15, 1312);
    const LogSummary summary = log.summary();
    const TimeUse use = summary.time_use;
    CHECK(use.restarting_s == Approx(30 + 5 + 200 + 2));
    CHECK(use.waiting_s == Approx(74));
    CHECK(use.other_s == Approx(1));
    CHECK(use.total_s() == Approx(*summary.wall_s));
}

TEST_CASE("the stamp of a start is one stamp") {
    LogReader log = new_log();
    add(log, {10, 80});
    log.add("[after megatron is initialized] datetime: 2026-01-31 12:00:00 ");
    add(log, {20, 160});
    CHECK(!log.summary().wall_s);
}

TEST_CASE("each start that an event states is a restart, also one without an iteration") {
    LogReader log = new_log();
    const auto event = [&log](const char* kind, i64 time, i64 iteration) {
        log.add(fmt::format(R"({{"kind":"{}","time":{},"generation":1,"iteration":{}}})", kind,
                            time, iteration));
    };
    event("start", 1000, 0);
    event("start", 1100, 0);  // the first one was killed before its first iteration
    add_run(log, 10, 100);    // 200 s
    event("save", 1300, 100);
    event("stop", 1310, 100);
    CHECK(log.summary().stops.n_restarts == 1);
    event("start", 2000, 50);
    event("start", 2100, 50);
    event("resume", 2100, 50);
    add_run(log, 60, 100);  // 100 s
    CHECK(log.summary().stops.n_restarts == 3);
    CHECK(log.summary().stops.repeated_iterations == 50);
    event("resume", 2200, 80);  // a rollback in the run
    add_run(log, 90, 100);      // 40 s
    CHECK(log.summary().stops.n_restarts == 3);
    CHECK(log.summary().stops.repeated_iterations == 70);
    CHECK(!log.summary().stops.newest.back().restarted);
    event("error", 2250, 100);
    event("start", 2300, 100);
    CHECK(log.summary().stops.n_restarts == 4);
    CHECK(*log.summary().wall_s == Approx(1300));
    CHECK(log.summary().missing_s == Approx(1300 - 200 - 100 - 40));
}

TEST_CASE("the lines of another rank are not a restart") {
    LogReader log = new_log();
    for (i64 i = 10; i <= 100; i += 10) {
        add(log, {i, i * 8, 8, 2, "[default6]:"});
        add(log, {i, i * 8, 8, 2, "[default7]:"});
        if (i > 10) add(log, {i - 10, (i - 10) * 8, 8, 2, "[default5]:"});  // late
    }
    CHECK(log.summary().lines.repeated == 19);
    CHECK(log.summary().stops.n_restarts == 0);
    CHECK(log.summary().last->iteration == 100);
}

TEST_CASE("a gap in time between stamps") {
    LogReader log = new_log();
    i64 now = 1000;
    for (i64 i = 10; i <= 100; i += 10) {
        now += 20;
        if (i == 50) now += 3600;  // it hung
        if (i == 70) now += 30;    // a validation
        add(log, {i, i * 8, 8, 2, stamped(now)});
    }
    REQUIRE(log.summary().stops.newest.size() == 1);
    const LogStop stop = log.summary().stops.newest.front();
    CHECK(!stop.restarted);
    CHECK(stop.last_iteration == 40);
    CHECK(*stop.missing_s == Approx(3600));
    CHECK(log.summary().missing_s == Approx(3630));
    CHECK(*log.summary().wall_s == Approx(9 * 20 + 3630));
}

TEST_CASE("the time between two jobs when only their starts and ends have stamps") {
    LogReader log = new_log();
    log.add("[after megatron is initialized] datetime: 2026-01-01 00:00:00 ");
    log.add("[before the start of training step] datetime: 2026-01-01 00:01:00 ");
    add_run(log, 10, 100);  // 200 s
    log.add("[exiting program at iteration 100] datetime: 2026-01-01 00:04:30 ");
    log.add("[after megatron is initialized] datetime: 2026-01-01 10:04:30 ");
    add_run(log, 110, 200);
    REQUIRE(log.summary().stops.newest.size() == 1);
    CHECK(*log.summary().stops.newest.front().missing_s == Approx(36010));
    CHECK(log.summary().missing_s == Approx(60 + 36010));
}

TEST_CASE("the share of a step that does not grow with the batch") {
    StepFit fit;
    CHECK(!fit.fixed_share(16));
    for (int i = 0; i < 5; ++i) fit.add(16, 4 + 16 * 0.25, 10);
    CHECK(!fit.fixed_share(16));
    fit.add(64, 4 + 64 * 0.25, 1);
    CHECK(*fit.fixed_share(16) == Approx(0.5));
    CHECK(*fit.fixed_share(64) == Approx(0.2));
    StepFit falling;
    falling.add(16, 4, 1);
    falling.add(64, 3, 1);
    CHECK(!falling.fixed_share(64));
}

TEST_CASE("memory does not grow with the number of stops") {
    LogReader log = new_log();
    for (i64 i = 0; i < 5000; ++i) {
        const double step_s = 1 + 0.001 * static_cast<double>(i);
        add(log, {200, 1600, 8, step_s});
        add(log, {100, 800, 8, step_s});
    }
    CHECK(log.summary().stops.n_restarts == 5000);
    CHECK(log.summary().stops.newest.size() == LogStops::max_stops);
}

TEST_CASE("evaluations and saves of lines without a stamp take the time to the next stamp") {
    LogReader log = new_log();
    i64 now = 1000;
    const auto steps = [&](i64 last) {
        now += 20;
        add(log, {last, last * 8, 8, 2, stamped(now)});
    };
    steps(10);
    log.add(" validation loss at iteration 10 | lm loss value: 2.5E+00 | lm loss PPL: 1.2E+01 | ");
    now += 30;
    steps(20);
    CHECK(log.summary().time_use.evaluation_s == Approx(30));
    log.add(" validation loss at iteration 20 | lm loss value: 2.5E+00 | lm loss PPL: 1.2E+01 | ");
    log.add("time (ms) | save-checkpoint: 12000.00");
    now += 30 + 12;
    steps(30);
    steps(40);
    CHECK(log.summary().time_use.evaluation_s == Approx(60));
    CHECK(log.summary().time_use.saving_s == Approx(12));
    // The last evaluation and save follow the line of the end; the next job waits 100 s.
    now += 1;
    log.add("[after training is done] datetime: " + stamped(now).substr(1, 19) + " ");
    log.add("time (ms) | save-checkpoint: 15000.00");
    now += 15 + 100;
    log.add("[after megatron is initialized] datetime: " + stamped(now).substr(1, 19) + " ");
    steps(50);
    const TimeUse use = log.summary().time_use;
    CHECK(use.evaluation_s == Approx(60));
    CHECK(use.saving_s == Approx(12 + 15));
    CHECK(use.waiting_s == Approx(100));
    CHECK(use.other_s == Approx(1));
    CHECK(use.total_s() == Approx(*log.summary().wall_s + 20));
}

TEST_CASE("a log that begins an hour after the end of the previous one is of another program") {
    for (const i64 pause_s : {3600, 5}) {
        LogReader log = new_log();
        i64 now = 1000;
        const auto steps = [&](i64 first) {
            log.begin_log();
            for (i64 i = first; i < first + 10; ++i) add(log, {i, i * 8, 8, 2, stamped(now += 2)});
        };
        steps(191);
        now += pause_s;
        steps(201);
        const bool restarts = pause_s == 3600;
        CHECK(log.summary().stops.n_restarts == (restarts ? 1 : 0));
        CHECK(log.summary().time_use.waiting_s == Approx(restarts ? 3600 : 0));
        CHECK(log.summary().stops.n_unseen_starts == (restarts ? 1 : 0));
        CHECK(log.summary().time_use.restarting_s == 0);
        CHECK(log.summary().time_use.other_s == Approx(restarts ? 0 : 5));
        CHECK(log.summary().stops.repeated_iterations == 0);
        if (restarts) CHECK(log.summary().stops.newest.front().restarted);
    }
}

TEST_CASE("iterations between the last line of a run and its stop count as computed") {
    LogReader log = new_log();
    const auto note = [&log](const std::string& time, const std::string& text) {
        log.add(fmt::format("2026-01-01T00:{}Z lm-train: note: {}", time, text));
    };
    const auto start = [&log](const std::string& time) {
        log.add(fmt::format("2026-01-01T00:{}Z  > program      lm-train 0.1.0", time));
    };
    const auto lines = [&log](i64 first, i64 last, i64 time) {
        for (i64 i = first; i <= last; i += 10) {
            add(log,
                {i, i * 8, 8, 2, fmt::format("2026-01-01T00:{:02}:{:02}Z", time / 60, time % 60)});
            time += 20;
        }
    };
    start("00:00");
    lines(10, 70, 20);  // until 02:20
    SECTION("when the run states its stop") {
        note("02:33", "x/global_step75: saved, 1 MiB in 3.0 s");
        note("02:33",
             "SIGUSR1: stopped after iteration 75 of 196: rerun the same command to resume");
        note("02:33",
             "SIGUSR1: stopped after iteration 75 of 196: rerun the same command to resume");
        CHECK(log.summary().rates.sums().iterations == 75);
        CHECK(log.summary().last->iteration == 70);
    }
    SECTION("when only the save and the next run state it") {
        note("02:33", "x/global_step75: saved, 1 MiB in 3.0 s");
    }
    start("03:00");
    note("03:01", "x/global_step75: resuming after iteration 75, 600 samples");
    lines(80, 100, 191);  // until 03:51
    CHECK(log.summary().rates.sums().iterations == 100);
    CHECK(log.summary().rates.sums().samples == Approx(800));
    CHECK(log.summary().rates.sums().tokens == Approx(800 * 16));
    CHECK(log.summary().stops.repeated_iterations == 0);
    CHECK(log.summary().stops.n_restarts == 1);
    REQUIRE(log.summary().stops.newest.size() == 1);
    CHECK(log.summary().stops.newest.front().last_iteration == 70);
    CHECK(log.summary().stops.newest.front().resumed_after == 75);
    CHECK(*log.summary().stops.newest.front().missing_s == Approx(3 + 27 + 1));
    const TimeUse use = log.summary().time_use;
    CHECK(use.useful_s == Approx(200));
    CHECK(use.saving_s == Approx(3));
    CHECK(use.waiting_s == Approx(27));
    CHECK(use.total_s() == Approx(*log.summary().wall_s));
}

TEST_CASE(
    "the first line reports as many iterations as the second, also with an event between them") {
    LogReader log = new_log();
    add(log, {10, 80, 8, 2, stamped(1000)});
    CHECK(log.summary().rates.sums().iterations == 1);  // no second line yet
    log.add(R"({"kind":"save","time":1767226700,"iteration":10,"elapsed_s":1})");
    add(log, {20, 160, 8, 2, stamped(1121)});
    CHECK(log.summary().rates.sums().iterations == 20);
    CHECK(log.summary().time_use.useful_s == Approx(40));
}

TEST_CASE("iterations before the first line, and a stop without a save") {
    LogReader log = new_log();
    const std::string start = " > program      lm-train 0.1.0";
    const std::string resume = "lm-train: note: x: resuming after iteration ";
    log.add(start);
    log.add("lm-train: note: SIGUSR1: stopped after iteration 5 of 196: rerun");
    log.add(start);
    log.add(resume + "5, 40 samples");
    add_run(log, 10, 50);
    CHECK(log.summary().rates.sums().iterations == 50);
    log.add("lm-train: SIGUSR1: stopped after iteration 58 of 196: nothing was saved");
    log.add(start);
    log.add(resume + "40, 320 samples");
    add_run(log, 50, 60);
    CHECK(log.summary().rates.sums().iterations == 58 + 20);
    CHECK(log.summary().stops.repeated_iterations == 18);
    // Too many iterations for one interval: a part of the log is missing.
    log.add(start);
    log.add(resume + "500, 4000 samples");
    add_run(log, 510, 520);
    CHECK(log.summary().rates.sums().iterations == 58 + 20 + 20);
}
