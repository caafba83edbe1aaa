// SPDX-License-Identifier: Apache-2.0
// Worked examples of published trainings: BigScience's chronicles and READMEs, arXiv 2104.04473.
#include <cmath>

#include "cost/formulas.hpp"
#include "cost/megatron_memory.hpp"
#include "cost/memory.hpp"
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
    // A block of 176B has 4.59 GiB in bf16, the other tensors 6.75 GiB, the whole model 328.34 GiB.
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
        if (row.iterations == 4805) CHECK(time.steps_s / 3600 == Approx(20.02).margin(0.005));
    }
}

TEST_CASE("BigScience's count without the final norm: L (12 h^2 + 13 h) + V h + s h") {
    struct Row {
        i64 hidden, n_layers, n_heads, parameters;
    };
    for (const Row& row : {Row{5120, 40, 32, 12'853'376'000}, Row{16384, 32, 32, 103'942'995'968},
                           Row{11600, 64, 80, 103'958'469'200}}) {
        const ModelConfig model = gpt(row.hidden, row.n_layers, row.n_heads, 50257);
        const i64 final_norm = 2 * row.hidden;
        CHECK(count_parameters(model).total() - final_norm == row.parameters);
        CHECK(std::llround(bigscience_parameters(model)) - final_norm == row.parameters);
    }
}

TEST_CASE("a block of 176B has 2,466,437,120 parameters, 4.9 GB in bf16; its embedding 7.2 GB") {
    const ModelConfig model = gpt(14336, 70, 112, 250880);
    const ModelConfig shorter = gpt(14336, 69, 112, 250880);
    CHECK(count_parameters(model).total() - count_parameters(shorter).total() == 2'466'437'120);
    const i64 block_bytes = checkpoint_size(model, {DType::bf16}).weights -
                            checkpoint_size(shorter, {DType::bf16}).weights;
    CHECK(static_cast<double>(block_bytes) / 1e9 == Approx(4.9).margin(0.05));
    const i64 embedding = count_parameters(model).embedding - 2048 * 14336;
    CHECK(embedding == 3'596'615'680);
    CHECK(static_cast<double>(2 * embedding) / 1e9 == Approx(7.2).margin(0.05));
}

TEST_CASE("18 bytes of state for each parameter: 234 GB for 13B, 1872 GB for 104B") {
    struct Row {
        ModelConfig model;
        ParallelConfig parallel;
        double parameters, gb, replica_gb;
    };
    for (const Row& row :
         {Row{gpt(5120, 40, 32, 50257), {.tp = 2, .pp = 4}, 13e9, 234, 8 * 32},
          Row{gpt(11600, 64, 80, 50257), {.tp = 4, .pp = 32}, 104e9, 1872, 4096}}) {
        const StepShape step{.micro_batch = 1, .seq_length = 2048, .n_micro_batches = 64};
        i64 state = 0, planned = 0, n = 0;  // sums over the stages
        for (i64 stage = 0; stage < row.parallel.pp; ++stage) {
            state += megatron_memory(row.model, row.parallel, step, {DType::fp16}, stage).state;
            const MemoryPlan plan =
                plan_memory(row.model, row.parallel, step, {DType::fp16}, {1, true}, 0, stage);
            planned += plan.weights + plan.masters + plan.gradients + plan.optimizer;
            n += rank_parameters(row.model, row.parallel, 0, stage);
        }
        const double bytes_each = static_cast<double>(state) / static_cast<double>(n);
        CHECK(bytes_each * row.parameters / 1e9 == Approx(row.gb).margin(0.5));
        CHECK(bytes_each * row.parameters / 1e9 < row.replica_gb);
        CHECK(static_cast<double>(planned) == Approx(static_cast<double>(state)).epsilon(1e-4));
    }
}

TEST_CASE("bf16 keeps all fp32 gradients of a rank, 4 bytes each, with a sharded optimizer") {
    const ModelConfig model = gpt(5120, 40, 32, 50257);
    const StepShape step{.micro_batch = 1, .seq_length = 2048};
    const auto plan_of = [&](i64 dp) {
        return plan_memory(model, {.tp = 2, .dp = dp, .zero_stage = 1}, step, {DType::bf16},
                           {1, true}, 0, 0);
    };
    const auto n = static_cast<double>(rank_parameters(model, {.tp = 2}, 0, 0));
    CHECK(static_cast<double>(plan_of(8).gradients) == Approx(4 * n).epsilon(1e-4));
    // A smaller data-parallel size needs more memory: each rank holds a larger part of the state.
    CHECK(static_cast<double>(plan_of(8).optimizer) == Approx(8 * n / 8).epsilon(1e-4));
    CHECK(static_cast<double>(plan_of(2).optimizer) == Approx(8 * n / 2).epsilon(1e-4));
    CHECK(plan_of(2).total() > plan_of(8).total());
}

TEST_CASE("a block of 104B has 1,614,870,800 parameters, its embedding 582,981,200") {
    const ModelConfig model = gpt(11600, 64, 80, 50257);
    const ModelConfig shorter = gpt(11600, 63, 80, 50257);
    CHECK(count_parameters(model).total() - count_parameters(shorter).total() == 1'614'870'800);
    CHECK(count_parameters(model).embedding - 2048 * 11600 == 582'981'200);
}

TEST_CASE("a GPU of 104B holds 14.5 GB of state for two blocks, 17.2 GB with the embedding") {
    // The published sums divide all parameters by the 4 tensor ranks, and omit padding and
    // positions. But a rank holds norms and the biases of row-parallel products whole (6 h for each
    // block), a quarter of the 50,688 padded rows of the vocabulary, and all positions.
    const ModelConfig model = gpt(11600, 64, 80, 50257);
    const ParallelConfig parallel{.tp = 4, .pp = 32};
    const StepShape step{.micro_batch = 1, .seq_length = 2048, .n_micro_batches = 64};
    const auto state_of = [&](i64 stage) {
        return megatron_memory(model, parallel, step, {DType::fp16}, stage).state;
    };
    constexpr i64 h = 11600, undivided = 2 * 6 * h * 3 / 4, padding = (50688 - 50257) * h / 4;
    CHECK(state_of(1) - 18 * undivided == 14'533'837'200);
    CHECK(state_of(0) - 18 * (undivided + padding + 2048 * h) == 17'157'252'600);
}

TEST_CASE("the forward pass of a layer has 24 B s h^2 + 4 B s^2 h operations") {
    const double batch = 16, seq = 2048, hidden = 4096;
    const double one = iteration_flops(gpt(4096, 2, 32, 50257), 50304, 16, 2048, false) -
                       iteration_flops(gpt(4096, 1, 32, 50257), 50304, 16, 2048, false);
    CHECK(one / 3 == Approx(24 * batch * seq * hidden * hidden + 4 * batch * seq * seq * hidden));
}

TEST_CASE("a ramp from 192 to 512 over 9,765,625 samples: 150 billion tokens near step 151,721") {
    const BatchRamp ramp{.start = 192, .increment = 16, .samples = 9'765'625, .global_batch = 512};
    constexpr i64 samples = 73'242'187;  // 150e9 / 2048
    // The published estimate takes the mean batch of the ramp.
    const BatchRamp mean{.start = 352, .increment = 160, .samples = 9'765'625, .global_batch = 512};
    CHECK(count_iterations(mean, samples) == 151'721);
    // The ramp is linear in samples, so more steps have small batches: the trainer needs 2 % more
    // steps.
    CHECK(count_iterations(ramp, samples) == 154'720);
}

TEST_CASE("13B consumed 313.4 billion tokens in 168,000 iterations") {
    const BatchRamp ramp{.start = 16, .increment = 16, .samples = 5'000'000, .global_batch = 1024};
    const i64 samples = samples_after(ramp, 168'000);
    CHECK(samples == 153'013'584);
    CHECK(static_cast<double>(samples * 2048) / 1e9 == Approx(313.4).margin(0.05));
}
