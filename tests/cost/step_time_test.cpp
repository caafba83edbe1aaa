// SPDX-License-Identifier: Apache-2.0
#include "cost/step_time.hpp"

#include "cost/formulas.hpp"
#include "cost/pipeline_time.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::spec;
using namespace lm::cost;

namespace {

ModelConfig bloom() {
    ModelConfig c{
        .n_layers = 70, .hidden = 14336, .n_heads = 112, .seq_length = 2048, .vocab_size = 250880};
    c.resolve();
    return c;
}

constexpr Recompute everything{.granularity = Recompute::Granularity::full};

}  // namespace

TEST_CASE("the step of one GPU takes the time of the formula's operations") {
    const ModelConfig model = bloom();
    const StepTime time =
        step_time(model, {.recompute = everything}, {2, 3, 2048, 2}, {.flops_per_s = 1e14});
    const double flops = iteration_flops(model, padded_vocab(model, {}), 6, 2048, true);
    CHECK(time.compute_s == Approx(flops / 1e14));
    CHECK(time.total() == time.compute_s);
}

TEST_CASE("the bubble is that of the schedule in virtual time") {
    const ModelConfig model = bloom();
    const ParallelConfig parallel{.pp = 7};
    // Links so fast that messages take no time.
    const StepTime time = step_time(model, parallel, {1, 20, 2048, 2}, {.flops_per_s = 1e9});
    const double each = time.compute_s / 20;
    CHECK(time.total() ==
          Approx(pipeline_time({7, 1, 20}, {each / 3, each * 2 / 3, 0.0})).epsilon(1e-6));
}

TEST_CASE("bytes of tensor and data parallelism") {
    const ModelConfig model = bloom();
    const GpuNode gpu{.flops_per_s = 1e14};
    const double row_bytes = 2.0 * 2048 * 14336;
    const StepTime tensor = step_time(model, {.tp = 4}, {1, 5, 2048, 2}, gpu);
    CHECK(tensor.tensor_s == Approx(5 * 70 * 4 * 1.5 * row_bytes / 300e9));
    const StepTime again =
        step_time(model, {.tp = 4, .recompute = everything}, {1, 5, 2048, 2}, gpu);
    CHECK(again.tensor_s == Approx(5 * 70 * 6 * 1.5 * row_bytes / 300e9));
    const double elements = static_cast<double>(rank_parameters(model, {.tp = 4, .dp = 2}, 0, 0));
    CHECK(step_time(model, {.tp = 4, .dp = 2}, {1, 5, 2048, 2}, gpu).data_s ==
          Approx(0.5 * 8 * elements / 300e9));
    CHECK(step_time(model, {.tp = 4, .dp = 4}, {1, 5, 2048, 2}, gpu).data_s ==
          Approx(0.75 * 8 * elements / 25e9));
    CHECK(step_time(model, {.tp = 4, .dp = 4, .zero_stage = 1}, {1, 5, 2048, 2}, gpu).data_s ==
          Approx(0.75 * 6 * elements / 25e9));
}

// BLOOM's log: 105.22 s on 384 GPUs, 215.82 s on 192. At the rate of the first run, the estimate of
// the second is within 8 %: the second run was slower than the model of the bubble predicts.
TEST_CASE("a training on half of its GPUs") {
    const ModelConfig model = bloom();
    const GpuNode gpu{.flops_per_s = 172e12};
    const auto seconds = [&](i64 dp) {
        const ParallelConfig parallel{.tp = 4,
                                      .pp = 12,
                                      .dp = dp,
                                      .balance = PipelineBalance::layers_and_embedding,
                                      .recompute = everything,
                                      .zero_stage = 1};
        return step_time(model, parallel, {2, 1024 / dp, 2048, 2}, gpu).total();
    };
    CHECK(seconds(8) == Approx(105.22).epsilon(0.03));
    CHECK(seconds(4) == Approx(215.82).epsilon(0.08));
}
