// SPDX-License-Identifier: Apache-2.0
#include "spec/schedule_summary.hpp"

#include "support/catch.hpp"

using namespace lm;
using namespace lm::spec;

namespace {

ScheduleRequest bloom_request() {
    ScheduleRequest r;
    r.seq_length = 2048;
    r.ramp = {192, 16, 9'765'625, 2048};
    r.train_samples = 220'000'000;
    r.lr = 6e-5;
    r.min_lr = 6e-6;
    r.decay_style = DecayStyle::cosine;
    r.warmup_samples = 183'105;
    r.decay_samples = 200'000'000;
    return r;
}

}  // namespace

TEST_CASE("the key rates of the 176B run") {
    const Schedule schedule(bloom_request());
    const auto points = key_rates(schedule);
    REQUIRE(points.size() == 5);
    CHECK(points[0].rate == 0.0);
    CHECK(points[1].what == "end of the warm-up");
    CHECK(points[1].done.samples >= 183'105);
    CHECK(points[1].done.samples < 183'105 + 224);
    CHECK(points[1].rate == Approx(6e-5).epsilon(1e-6));
    CHECK(points[2].done.samples >= 100'091'552);
    CHECK(points[2].rate == Approx(3.3e-5).epsilon(1e-4));
    CHECK(points[3].rate == 6e-6);
    CHECK(points[3].done.samples < 200'000'000 + 2048);
    CHECK(points[4].done == schedule.end());
}

TEST_CASE("points that the training does not reach, or that coincide, are omitted") {
    ScheduleRequest r = bloom_request();
    r.ramp.start = 0;
    r.train_samples = 204'800;
    r.warmup_samples.reset();
    const auto points = key_rates(Schedule(r));
    REQUIRE(points.size() == 2);
    CHECK(points[0].rate == Approx(6e-5));
    CHECK(points[1].what == "end");
    r.decay_style = DecayStyle::constant;
    CHECK(key_rates(Schedule(r)).size() == 2);
}

TEST_CASE("the points of a decay by tokens are found by tokens") {
    ScheduleRequest r = bloom_request();
    r.decay_samples.reset();
    r.decay_tokens = 100'000'000'000;
    const auto points = key_rates(Schedule(r));
    REQUIRE(points.size() == 5);
    CHECK(points[3].done.tokens >= 100'000'000'000);
    CHECK(points[3].done.tokens < 100'000'000'000 + 2048 * 2048);
}

TEST_CASE("describe_ramp lists the stages") {
    const auto lines = describe_ramp(Schedule(bloom_request()));
    REQUIRE(lines.size() == 117);
    CHECK(lines.front() == "iterations 1 to 439: batch 192, from sample 0");
    CHECK(lines.back() == "iterations 12659 to 115311: batch 2048, from sample 9765808");
    ScheduleRequest r = bloom_request();
    r.train_samples = 100'000;
    CHECK(describe_ramp(Schedule(r)).size() == 2);
    r.ramp.start = 0;
    CHECK(describe_ramp(Schedule(r)).empty());
}

TEST_CASE("the number of validations is Megatron's") {
    ScheduleRequest r;
    r.seq_length = 2048;
    r.ramp.global_batch = 288;
    r.train_samples = 146'484'375;
    r.lr = 6e-5;
    CHECK(megatron_validations(Schedule(r), 1000) * 40 * 288 == 5'863'680);
}
