// SPDX-License-Identifier: Apache-2.0
#include "metrics/remaining.hpp"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/error.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::metrics;

namespace {

// Returns a log of iterations 10, 20, ..., 100 of 1000, a batch of 8 and 2 s each.
LogSummary log_of(const std::string& fields = "") {
    LogReader log({.window = 100, .least_gap_s = 600});
    for (i64 i = 10; i <= 100; i += 10) {
        log.add(fmt::format(
            " iteration {}/ 1000 | consumed samples: {} | elapsed time per iteration (ms): 2000.0 "
            "| global batch size: 8 | lm loss: 2.0 |{}",
            i, i * 8, fields));
    }
    return log.summary();
}

}  // namespace

TEST_CASE("the training ends at the first of its limits") {
    const LogSummary log = log_of();
    CHECK(remaining_of(log, {}, "log").iterations == 900);
    CHECK(*remaining_of(log, {}, "log").samples == 7200);
    CHECK(remaining_of(log, {.train_iters = 150}, "log").iterations == 50);
    CHECK(remaining_of(log, {.train_samples = 1600}, "log").iterations == 100);
    CHECK(remaining_of(log, {.train_iters = 50}, "log").iterations == 0);
    CHECK(remaining_of(log, {.train_tokens = 1600 * 16, .seq_length = 16}, "log").iterations ==
          100);
    CHECK_THROWS_AS(remaining_of(log, {.train_tokens = 100}, "log"), Error);
    CHECK_THROWS_AS(remaining_of(log, {.train_samples = 1, .train_iters = 1}, "log"), Error);
}

TEST_CASE("the time of larger batches is proportional when the log shows one batch size") {
    const LogSummary log = log_of();
    const RunLength doubled{.ramp = spec::BatchRamp{.global_batch = 16}, .train_iters = 200};
    CHECK(seconds_left(log, remaining_of(log, {.train_iters = 200}, "log")) == Approx(200));
    CHECK(seconds_left(log, remaining_of(log, doubled, "log")) == Approx(400));
}

TEST_CASE("availability and age need time stamps") {
    const LogSummary plain = log_of();
    CHECK(!availability(plain));
    CHECK(!age_s(plain, 1e9));
    CHECK(between_lines_s(plain) == Approx(10 * 2));
    LogReader reader({.window = 100, .least_gap_s = 600});
    const std::vector<std::pair<i64, i64>> lines{{1000, 10}, {1020, 20}, {1060, 30}};
    for (const auto& [time, i] : lines) {
        reader.add(fmt::format(R"({{"kind":"step","time":{},"iteration":{},"total_iterations":90,)"
                               R"("consumed_samples":{},"step_s":2,"global_batch_size":8,)"
                               R"("lm_loss":3,"learning_rate":1e-3,"skipped_iterations":0,)"
                               R"("nan_iterations":0}})",
                               time, i, i * 8));
    }
    const LogSummary stamped = reader.summary();
    CHECK(*availability(stamped) == Approx(1 - 20.0 / 60));
    CHECK(*age_s(stamped, 1065) == Approx(5));
    CHECK(*age_s(stamped, 1000) == Approx(0));
}
