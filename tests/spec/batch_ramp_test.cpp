// SPDX-License-Identifier: Apache-2.0
// Iterations and samples from the logs of published trainings.
#include "spec/batch_ramp.hpp"

#include "base/error.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::spec;

namespace {

// Returns the samples consumed after iteration `n`.
i64 consumed_after(const BatchRamp& ramp, i64 n) {
    i64 consumed = 0;
    for (i64 i = 0; i < n; ++i) consumed += ramp.batch_at(consumed);
    return consumed;
}

const BatchRamp gpt13b{16, 16, 5'000'000, 1024};
const BatchRamp gpt104b{16, 16, 6'000'000, 2048};
const BatchRamp bloom{192, 16, 9'765'625, 2048};

}  // namespace

TEST_CASE("iterations of published trainings") {
    CHECK(count_iterations(gpt13b, 300'000'000) == 311'541);
    CHECK(count_iterations(gpt13b, 150'000'000) == 165'057);
    CHECK(count_iterations(gpt104b, 300'000'000) == 159'576);
    CHECK(count_iterations({32, 32, 6'000'000, 2048}, 300'000'000) == 157'628);
    CHECK(count_iterations(bloom, 220'000'000) == 115'311);
    CHECK(count_iterations({16, 16, 9'765'625, 2048}, 220'000'000) == 128'728);
    CHECK(count_iterations({0, 0, 0, 288}, 146'484'375) == 508'626);
}

TEST_CASE("the ramp, step by step") {
    const std::vector<RampStep> steps = ramp_steps(gpt13b, 300'000'000);
    REQUIRE(steps.size() == 64);
    const auto check = [&steps](size_t i, i64 iteration, i64 consumed, i64 batch) {
        CHECK(steps[i].first_iteration == iteration);
        CHECK(steps[i].consumed_before == consumed);
        CHECK(steps[i].batch == batch);
    };
    check(0, 1, 0, 16);
    check(1, 4962, 79376, 32);
    check(2, 7442, 158736, 48);
    check(5, 11328, 396848, 96);
    check(61, 23298, 4841536, 992);
    check(62, 23378, 4920896, 1008);
    check(63, 23457, 5000528, 1024);
    CHECK(steps.back().consumed_after() <= 300'000'000);
    const std::vector<RampStep> of_bloom = ramp_steps(bloom, 220'000'000);
    CHECK(of_bloom.size() == 117);
    CHECK(of_bloom[1].first_iteration == 440);
    CHECK(of_bloom.back().first_iteration == 12'659);
    CHECK(of_bloom.back().consumed_before == 9'765'808);
}

TEST_CASE("the ramp of a training that has consumed samples already") {
    for (const i64 iterations : {0, 1, 439, 5000, 12'657, 12'658, 100'000}) {
        CAPTURE(iterations);
        const i64 consumed = samples_after(bloom, iterations);
        i64 n = 0, samples = consumed;
        for (const RampStep& step : ramp_steps(bloom, 220'000'000, consumed)) {
            CHECK(step.first_iteration == n + 1);
            CHECK(step.consumed_before == samples);
            n += step.n_iterations;
            samples = step.consumed_after();
        }
        CHECK(iterations + n == 115'311);
        CHECK(samples == samples_after(bloom, 115'311));
    }
    CHECK(ramp_steps(bloom, 220'000'000, 220'000'000).empty());
    CHECK(ramp_steps(bloom, 1000, 220'000'000).empty());
}

TEST_CASE("samples consumed at logged iterations") {
    CHECK(consumed_after(gpt13b, 168'000) == 153'013'584);
    CHECK(consumed_after(gpt104b, 3848) == 75'888);
    CHECK(consumed_after(gpt104b, 16'800) == 7'594'208);
    CHECK(consumed_after(bloom, 12'695) == 9'841'584);
    CHECK(consumed_after(bloom, 94'768) == 177'927'088);
}

TEST_CASE("a training that ends within the ramp") {
    const std::vector<RampStep> steps = ramp_steps(gpt13b, 80'000);
    REQUIRE(steps.size() == 2);
    CHECK(steps[1].n_iterations == (80'000 - 79'376) / 32);
}

TEST_CASE("the steps of a ramp cover every iteration once") {
    for (const BatchRamp& ramp : {BatchRamp{3, 2, 1000, 13}, BatchRamp{1, 1, 50, 40},
                                  BatchRamp{16, 16, 100'000, 2048}, BatchRamp{2, 2, 3, 64}}) {
        i64 consumed = 0;
        i64 iteration = 1;
        for (const RampStep& step : ramp_steps(ramp, 300'000)) {
            CHECK(step.first_iteration == iteration);
            CHECK(step.consumed_before == consumed);
            for (i64 i = 0; i < step.n_iterations; ++i) {
                REQUIRE(ramp.batch_at(consumed) == step.batch);
                consumed += step.batch;
            }
            iteration += step.n_iterations;
        }
        CHECK(consumed + ramp.global_batch > 300'000);
        CHECK(consumed <= 300'000);
    }
    CHECK(ramp_steps({1, 1, i64{1} << 50, 3}, i64{1} << 51).size() == 3);  // in constant time
}

TEST_CASE("the help text's example: 16 8 300000 up to 1024") {
    const BatchRamp ramp{16, 8, 300'000, 1024};
    CHECK(ramp.batch_at(2380) == 16);
    CHECK(ramp.batch_at(2381) == 24);
    CHECK(ramp.batch_at(300'000) >= 1016);
    CHECK(ramp.batch_at(300'001) == 1024);
    CHECK(ramp.stages().front().batch == 16);
    CHECK(ramp.stages().back().batch == 1024);
}

TEST_CASE("data-parallel sizes that fit every stage") {
    CHECK(fitting_dp_sizes(BatchRamp{16, 16, 5'000'000, 1024}, 1, 64) ==
          std::vector<i64>{1, 2, 4, 8, 16});
    CHECK(fitting_dp_sizes(BatchRamp{192, 16, 9'765'625, 2048}, 2, 64) ==
          std::vector<i64>{1, 2, 4, 8});
    CHECK(fitting_dp_sizes(BatchRamp{.global_batch = 288}, 1, 20) ==
          std::vector<i64>{1, 2, 3, 4, 6, 8, 9, 12, 16, 18});
}

TEST_CASE("invalid ramps are refused") {
    CHECK_THROWS_AS((BatchRamp{16, 16, 100, 1000}.check()), Error);
    CHECK_THROWS_AS((BatchRamp{1024, 16, 100, 1024}.check()), Error);
    CHECK_THROWS_AS((BatchRamp{16, 0, 100, 1024}.check()), Error);
    CHECK_THROWS_AS((BatchRamp{0, 0, 0, 0}.check()), Error);
    CHECK_THROWS_WITH((BatchRamp{16, 25, 1000, 1024}.check()), ContainsSubstring(" 16 to"));
    CHECK_THROWS_WITH((BatchRamp{32, 16, 1000, 16}.check()),
                      ContainsSubstring("--rampup-batch-size"));
}

TEST_CASE("a schedule of batch sizes, as Megatron's StepBatchsizeNumMicroBatchesCalculator") {
    // 0:384 from the start, 768 from 100,000 samples on, 1152 from 200,000 on.
    const BatchRamp ramp{.start = 384,
                         .samples = 199'999,
                         .global_batch = 1152,
                         .steps = {{0, 384}, {100'000, 768}, {200'000, 1152}}};
    CHECK_NOTHROW(ramp.check());
    i64 consumed = 0, n = 0;
    for (; consumed < 300'000; ++n) {
        const i64 expected = consumed >= 200'000 ? 1152 : consumed >= 100'000 ? 768 : 384;
        REQUIRE(ramp.batch_at(consumed) == expected);
        consumed += expected;
    }
    CHECK(samples_after(ramp, n) == consumed);
    CHECK(count_iterations(ramp, consumed) == n);
    CHECK(count_iterations(ramp, consumed - 1) == n - 1);
    const std::vector<RampStep> steps = ramp_steps(ramp, consumed);
    REQUIRE(steps.size() == 3);
    CHECK(steps[1].first_iteration == 262);  // 261 x 384 = 100,224 samples
    CHECK(steps[1].consumed_before == 100'224);
    CHECK(steps[2].batch == 1152);
    CHECK(fitting_dp_sizes(ramp, 1, 8) == std::vector<i64>{1, 2, 3, 4, 6, 8});

    const auto wrong = [](std::vector<BatchFrom> given) {
        return BatchRamp{.start = 1, .samples = 9, .global_batch = 8, .steps = std::move(given)};
    };
    CHECK_THROWS_AS(wrong({{1, 4}, {10, 8}}).check(), Error);
    CHECK_THROWS_AS(wrong({{0, 4}, {10, 0}}).check(), Error);
    CHECK_THROWS_AS(wrong({{0, 4}, {0, 8}}).check(), Error);
    CHECK_THROWS_AS(wrong({{0, 8}, {10, 4}}).check(), Error);
}
