// SPDX-License-Identifier: Apache-2.0
#include "cost/step_time.hpp"

#include "cost/formulas.hpp"
#include "gpus.hpp"
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

StepTime time_of(const ParallelConfig& parallel, i64 n_micro_batches,
                 const TrainingProgram& trainer = megatron_2021) {
    const ModelConfig model = bloom();
    const SimulatedStep step{.model = model,
                             .parallel = parallel,
                             .batch = {2, n_micro_batches, model.seq_length, DType::bf16},
                             .elements = largest_rank_parameters(model, parallel)};
    return step_time(step, shared_hardware("a100"), trainer);
}

}  // namespace

TEST_CASE("a large product takes the time of its operations, a thin one that of its bytes") {
    const Hardware gpu = shared_hardware("a100");
    const double m = 16384;
    const double large_s = product_seconds(gpu, DType::bf16, m, 8192, 8192);
    CHECK(large_s == Approx(2 * m * 8192 * 8192 / (312e12 * gpu.matmul_fraction)).epsilon(0.05));
    CHECK(product_seconds(gpu, DType::bf16, m, 16, 4096) ==
          Approx(stream_seconds(gpu, 2 * (m * 4096 + 4096 * 16 + m * 16))));
    // One tile more than a wave of 108 tiles takes longer than one wave, but less than two.
    const double wave_s = product_seconds(gpu, DType::bf16, 256 * 12, 128 * 9, 8192);
    const double more_s = product_seconds(gpu, DType::bf16, 256 * 12, 128 * 9 + 1, 8192);
    CHECK(more_s > 1.2 * wave_s);
    CHECK(more_s < 2 * wave_s);
}

TEST_CASE("a ring moves (n - 1) / n of the bytes") {
    const Hardware gpu = shared_hardware("a100");
    CHECK(ring_seconds(gpu, {1, 1, 1}, 1e9) == 0);
    CHECK(ring_seconds(gpu, {8, 8, 1}, 8e9) == Approx(7e9 / 235e9 + 7 * 8e-6));
    CHECK(ring_seconds(gpu, {4, 1, 8}, 8e9) == Approx(6e9 / 12.5e9 + 3 * 15e-6));
}

TEST_CASE("a ring enters each node once, and uses a link for each of its ranks in a node") {
    const Hardware gpu = shared_hardware("a100");  // 4 links of 25 GB/s a node
    // 16 ranks on 2 nodes: one hop between nodes, 14 in a node.
    CHECK(ring_seconds(gpu, {16, 8, 1}, 16e9) == Approx(15e9 / 100e9 + 15e-6 + 14 * 8e-6));
    // One rank in each node uses one link, even if it has the network for itself.
    CHECK(link_rate(gpu, {8, 1, 1}) == 25e9);
    CHECK(link_rate(gpu, {8, 2, 1}) == 50e9);
    CHECK(link_rate(gpu, {8, 2, 4}) == 25e9);
    CHECK(link_rate(gpu, {8, 8, 1}) == gpu.node.bytes_per_s);
}

TEST_CASE("an all-reduce between nodes is a tree for few bytes and a ring for many") {
    const Hardware gpu = shared_hardware("a100");
    const RankGroup group{256, 8, 1};  // 32 nodes
    const auto tree_s = [](double bytes) { return 2 * (bytes / 92e9 + 5 * 15e-6 + 7 * 8e-6); };
    for (const double bytes : {1e3, 1e6, 1e8}) {
        CHECK(all_reduce_seconds(gpu, group, bytes) == Approx(tree_s(bytes)));
    }
    CHECK(all_reduce_seconds(gpu, group, 1e11) == Approx(2 * ring_seconds(gpu, group, 1e11)));
    CHECK(all_reduce_seconds(gpu, group, 1e11) < tree_s(1e11));
    CHECK(all_reduce_seconds(gpu, {8, 8, 1}, 1e3) == 2 * ring_seconds(gpu, {8, 8, 1}, 1e3));
}

TEST_CASE("a message between nodes shares the network with the other ranks of its stage") {
    // Messages of 2 x 2048 x 14336 bf16; a node has 8 GPUs and 4 links of 25 GB/s. A stage waits
    // for one exchange of messages, in and out at the same time, after each of 2 passes of 16
    // micro-batches.
    const auto messages_s = [](const ParallelConfig& parallel) {
        return time_of(parallel, 16).messages_s / (16 * 2);
    };
    const double bytes = 2.0 * 2048 * 14336 * 2;
    CHECK(messages_s({.pp = 70, .dp = 1, .recompute = everything}) == Approx(bytes / 25e9 + 15e-6));
    CHECK(messages_s({.pp = 70, .dp = 8, .recompute = everything}) ==
          Approx(bytes / 12.5e9 + 15e-6));
}

TEST_CASE("the parts of a step grow with what causes them") {
    const StepTime one = time_of({.recompute = everything}, 4);
    CHECK(one.bubble_s == Approx(0).margin(1e-9));
    CHECK(one.data_s == 0);
    CHECK(one.busiest.tensor_s == 0);
    CHECK(one.busiest.products_s ==
          Approx(4 * time_of({.recompute = everything}, 1).busiest.products_s));
    // Without recomputation three of the four passes remain.
    CHECK(time_of({}, 4).busiest.stream_s < one.busiest.stream_s);
    CHECK(time_of({.tp = 8}, 4).busiest.tensor_s > 0);
    // Sequence parallelism divides norms and residuals.
    const StepTime sequence = time_of({.tp = 8, .sequence_parallel = true}, 4);
    CHECK(sequence.busiest.stream_s < time_of({.tp = 8}, 4).busiest.stream_s);
    CHECK(sequence.busiest.tensor_s == time_of({.tp = 8}, 4).busiest.tensor_s);
    // The bubble of 10 equal stages of 7 layers, of which the last also has the head.
    const StepTime pipeline = time_of({.pp = 10}, 30);
    CHECK(pipeline.bubble_s / pipeline.busiest.total() == Approx(9.0 / 30).epsilon(0.2));
    CHECK(time_of({.pp = 7, .n_chunks = 10}, 28).bubble_s < time_of({.pp = 7}, 28).bubble_s);
    CHECK(time_of({.dp = 64}, 4).data_s > time_of({.dp = 64, .zero_stage = 1}, 4).optimizer_s);
    CHECK(time_of({.dp = 64, .zero_stage = 1}, 4).optimizer_s ==
          Approx(time_of({.dp = 64}, 4).optimizer_s / 64));
    // Fused attention has half the operations, and does not write scores.
    CHECK(time_of({}, 4, lm_train).busiest.attention_s < time_of({}, 4).busiest.attention_s / 2);
}

TEST_CASE("a step of small kernels waits for the host") {
    const ModelConfig tiny = [] {
        ModelConfig c{
            .n_layers = 4, .hidden = 256, .n_heads = 4, .seq_length = 128, .vocab_size = 1024};
        c.resolve();
        return c;
    }();
    const ParallelConfig parallel;
    const SimulatedStep step{
        .model = tiny, .parallel = parallel, .batch = {1, 2, 128, DType::bf16}, .elements = 1};
    const StepTime time = step_time(step, shared_hardware("a100"), megatron_2021);
    CHECK(time.total() == Approx(2 * 4 * 3 * megatron_2021.host_pass_s).epsilon(0.05));
    CHECK(time.busiest.host_s > 0.9 * time.total());
}

TEST_CASE("the quick time is close to that of the schedule") {
    const ModelConfig model = bloom();
    const Hardware gpu = shared_hardware("h100");
    for (const ParallelConfig& parallel :
         {ParallelConfig{
              .tp = 4, .pp = 12, .dp = 8, .balance = PipelineBalance::layers_and_embedding},
          ParallelConfig{.tp = 8, .pp = 35, .recompute = everything},
          ParallelConfig{.pp = 7, .n_chunks = 5}, ParallelConfig{.tp = 8, .dp = 2}}) {
        INFO("TP " << parallel.tp << " PP " << parallel.pp);
        const SimulatedStep step{.model = model,
                                 .parallel = parallel,
                                 .batch = {1, 70, model.seq_length, DType::bf16},
                                 .elements = largest_rank_parameters(model, parallel)};
        for (const TrainingProgram& trainer : {megatron_2021, lm_train}) {
            CHECK(quick_step_time(step, gpu, trainer).total() ==
                  Approx(step_time(step, gpu, trainer).total()).epsilon(0.05));
        }
    }
}

TEST_CASE("block recomputes the first layers of each stage only") {
    // 7 layers in each of 10 stages.
    ParallelConfig parallel{.tp = 4, .pp = 10, .dp = 8};
    const double none_s = time_of(parallel, 128).total();
    parallel.recompute = everything;
    const double all_s = time_of(parallel, 128).total();
    parallel.recompute = {Recompute::Granularity::full, Recompute::Method::block, 1};
    CHECK(time_of(parallel, 128).total() - none_s == Approx((all_s - none_s) / 7).epsilon(0.02));
    parallel.recompute.n_layers = 9;
    CHECK(time_of(parallel, 128).total() == Approx(all_s));
    // A uniform group of layers is computed as often as single layers.
    parallel.recompute = {Recompute::Granularity::full, Recompute::Method::uniform, 3};
    CHECK(time_of(parallel, 128).total() == Approx(all_s));
}

TEST_CASE("the largest rank may be one of a stage in the middle") {
    const ModelConfig model = bloom();
    const ParallelConfig parallel{
        .tp = 4, .pp = 3, .first_stage_layers = 10, .last_stage_layers = 10};
    CHECK(largest_rank_parameters(model, parallel) ==
          static_cast<double>(rank_parameters(model, parallel, 0, 1)));
}
