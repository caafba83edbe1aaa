// SPDX-License-Identifier: Apache-2.0
// Worked examples of published trainings: BigScience's chronicles and READMEs, arXiv 2104.04473.
#include <cmath>

#include "cost/formulas.hpp"
#include "cost/training_time.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::spec;
using namespace lm::cost;

namespace {

ModelConfig gpt(i64 hidden, i64 n_layers, i64 n_heads, i64 vocab) {
    ModelConfig config{.n_layers = n_layers,
                       .hidden = hidden,
                       .n_heads = n_heads,
                       .seq_length = 2048,
                       .vocab_size = vocab};
    config.resolve();
    return config;
}

constexpr double gib = 1 << 30;

}  // namespace

TEST_CASE("52 billion parameters on 64 GPUs, 127 s a step: 107.33 TFLOP/s") {
    CHECK(training_seconds(52e9, 1024 * 2048.0, 64, 107.3346, true) == Approx(127).epsilon(1e-6));
}

TEST_CASE("300 billion tokens, 200 billion parameters, 350 GPUs of 150 TFLOP/s: 105.82 days") {
    CHECK(training_seconds(200e9, 300e9, 350, 150, true) / 86400 == Approx(105.82).margin(0.005));
}

TEST_CASE("176 instead of 167 billion parameters: 127.3 days") {
    CHECK(training_seconds(176e9, 450e9, 384, 150, true) / 86400 == Approx(127.3).margin(0.05));
}

TEST_CASE("sizes of checkpoints as BigScience measured them") {
    // A block of 176B is 4.59 GiB in bf16, the rest 6.75 GiB, all 328.34 GiB.
    const ModelConfig model = gpt(14336, 70, 112, 250680);
    const double weights = static_cast<double>(checkpoint_size(model, {DType::bf16}).weights) / gib;
    CHECK(weights == Approx(328.34).margin(0.005));
    const ModelConfig shorter = gpt(14336, 69, 112, 250680);
    const double others =
        static_cast<double>(checkpoint_size(shorter, {DType::bf16}).weights) / gib;
    CHECK(weights - others == Approx(4.59).margin(0.005));
    CHECK(weights - 70 * (weights - others) == Approx(6.75).margin(0.005));
    // The weights of 13B: 2 x 12.853 = 25.7 GB.
    const ModelConfig small = gpt(5120, 40, 32, 50257);
    CHECK(static_cast<double>(checkpoint_size(small, {DType::fp16}).weights) / 1e9 ==
          Approx(25.7).margin(0.05));
}

TEST_CASE("14 bytes for each of 176 billion parameters: 2294.78 GiB; 2 bytes: 327.83 GiB") {
    const ModelConfig model = gpt(14336, 70, 112, 250680);
    const double n = static_cast<double>(count_parameters(model).total());
    const CheckpointSize size = checkpoint_size(model, {DType::bf16});
    CHECK(static_cast<double>(size.total()) / n * 176e9 / gib == Approx(2294.78).margin(0.005));
    CHECK(static_cast<double>(size.weights) / n * 176e9 / gib == Approx(327.83).margin(0.005));
}

TEST_CASE("70 layers are best used by 47.4 billion parameters") {
    CHECK(std::llround(parameters_at_depth(70)) == 47'376'960'962);
}

TEST_CASE("4805 iterations of 15 s take 20.02 hours, 19.69 with the published 3660 s an hour") {
    struct Row {
        i64 iterations;
        double published_h;
    };
    for (const Row& row : {Row{4805, 19.69}, Row{2402, 9.84}, Row{18146, 74.37}}) {
        TrainingPlan plan{.model = gpt(1024, 24, 16, 50257),
                          .parallel = {},
                          .ramp = {.global_batch = 16},
                          .simulated_s = [](i64) { return 15.0; }};
        const TrainingTime time =
            training_time(plan, ramp_steps(plan.ramp, row.iterations * plan.ramp.global_batch));
        CHECK(time.steps_s == 15.0 * static_cast<double>(row.iterations));
        CHECK(time.steps_s / 3660 == Approx(row.published_h).margin(0.005));
    }
}

TEST_CASE("a block of 104B has 1,614,870,800 parameters, its embedding 582,981,200") {
    const ModelConfig model = gpt(11600, 64, 80, 50257);
    const ModelConfig shorter = gpt(11600, 63, 80, 50257);
    CHECK(count_parameters(model).total() - count_parameters(shorter).total() == 1'614'870'800);
    CHECK(count_parameters(model).embedding - 2048 * 11600 == 582'981'200);
    // 18 bytes of each parameter: two blocks over 4 tensor ranks, and with the embedding.
    CHECK(i64{2} * 1'614'870'800 / 4 * 18 == 14'533'837'200);
    CHECK((i64{2} * 1'614'870'800 + 582'981'200) / 4 * 18 == 17'157'252'600);
}

TEST_CASE("the forward pass of a layer has 24 B s h^2 + 4 B s^2 h operations") {
    const double batch = 16, seq = 2048, hidden = 4096;
    const double one = iteration_flops(gpt(4096, 2, 32, 50257), 50304, 16, 2048, false) -
                       iteration_flops(gpt(4096, 1, 32, 50257), 50304, 16, 2048, false);
    CHECK(one / 3 == Approx(24 * batch * seq * hidden * hidden + 4 * batch * seq * seq * hidden));
}

TEST_CASE("a ramp from 192 to 512 over 9,765,625 samples: 150 billion tokens near step 151,721") {
    const BatchRamp ramp{.start = 192, .increment = 16, .samples = 9'765'625, .global_batch = 512};
    // The published estimate takes the mean batch of the ramp. The ramp is linear in samples, so
    // its small batches take more of the steps: the trainer needs 2 % more.
    const double published = 9'765'625 / 0.5 / (512 + 192) + (150e9 / 2048 - 9'765'625) / 512;
    CHECK(published == Approx(151720.9).margin(0.05));
    const i64 steps = count_iterations(ramp, 73'242'187);
    CHECK(steps == 154'720);
    CHECK(static_cast<double>(steps) == Approx(published).epsilon(0.02));
}
