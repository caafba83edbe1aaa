// SPDX-License-Identifier: Apache-2.0
#include "train/log/pace.hpp"

#include "base/log.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::train;

namespace {

double now_s = 0;
double test_clock() {
    return now_s;
}

// A run of 1,000 iterations of 8 samples of 100 tokens.
RunConfig run_of(i64 log_interval) {
    spec::ScheduleRequest request;
    request.ramp = {.global_batch = 8};
    request.seq_length = 100;
    request.train_samples = 8000;
    request.lr = 1e-3;
    RunConfig config{.schedule = spec::Schedule(request)};
    config.logging.interval = log_interval;
    return config;
}

// Returns the notes of a run of `n` iterations of 8 micro-batches. The first micro-batch of the run
// takes `first_s` seconds, and every other one `micro_s`.
std::vector<std::string> notes_of(i64 log_interval, double first_s, double micro_s, i64 n = 2) {
    std::vector<std::string> notes;
    set_log_sink([&notes](Severity severity, std::string_view text) {
        notes.push_back(std::string(name_of(severity)) + ": " + std::string(text));
    });
    const RunConfig config = run_of(log_interval);
    now_s = 0;
    Pace pace(config, {}, true, test_clock);
    spec::Counters done;
    for (i64 i = 0; i < n; ++i) {
        const double began_s = now_s;
        pace.begin_iteration(done, 8, 800);
        for (int m = 0; m < 8; ++m) {
            pace.begin_micro_batch();
            now_s += i == 0 && m == 0 ? first_s : micro_s;
        }
        pace.end_iteration(now_s - began_s);
        done = config.schedule.next(done);
    }
    set_log_sink(nullptr);
    return notes;
}

}  // namespace

TEST_CASE("long iterations are announced in the first one, without the warm-up") {
    const auto notes = notes_of(1, 100, 5, 1);
    REQUIRE(notes.size() == 1);
    CHECK_THAT(notes[0], StartsWith("note: 40.0 s an iteration, 20 tokens/s: 1000 iterations "
                                    "take 11 h 07 min, until 20"));
}

TEST_CASE("short iterations are announced after the second one") {
    CHECK(notes_of(1000, 1, 0.1, 1).empty());
    const auto notes = notes_of(1000, 1, 0.1);
    REQUIRE(notes.size() == 1);
    CHECK_THAT(notes[0], StartsWith("note: 800 ms an iteration, 1.0k tokens/s: 999 iterations"));
}

TEST_CASE("no note when a log line comes soon") {
    CHECK(notes_of(5, 1, 0.1).empty());
    CHECK(notes_of(10, 1, 0.1).empty());
}

TEST_CASE("a training of hours is announced although a log line comes soon") {
    const auto notes = notes_of(1, 8, 1);
    REQUIRE(notes.size() == 1);
    CHECK_THAT(notes[0], StartsWith("note: 8.0 s an iteration, ") &&
                             ContainsSubstring(" iterations take 2 h 13 min, until 20"));
}

TEST_CASE("a training of years is a warning") {
    const auto notes = notes_of(1, 1, 10'000, 1);
    REQUIRE(notes.size() == 1);
    CHECK_THAT(notes[0], StartsWith("warning: 22 h 13 min an iteration, ") &&
                             ContainsSubstring("take 2.5 years, until 20"));
}
