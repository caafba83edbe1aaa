// SPDX-License-Identifier: Apache-2.0
#include "cost/megatron_memory.hpp"

#include "support/catch.hpp"

using namespace lm;
using namespace lm::spec;
using namespace lm::cost;

namespace {

// The models of arXiv 2205.05198, table 3, without vocabulary and positions, which its figure 1
// does not count.
struct Figure1 {
    i64 n_layers, hidden, n_heads, micro_batch;
    ParallelConfig parallel;
    double state, activations, selective;  // GiB
};

double in_gib(i64 bytes) {
    return static_cast<double>(bytes) / (1 << 30);
}

}  // namespace

TEST_CASE("the memory of figure 1 of arXiv 2205.05198") {
    using enum Recompute::Granularity;
    for (const Figure1& row :
         {Figure1{48, 6144, 64, 4, {.tp = 8}, 45.56, 59.25, 9.56},
          Figure1{96, 12288, 96, 1, {.tp = 8, .pp = 8, .n_chunks = 3}, 45.56, 66.84, 12.35}}) {
        INFO(row.hidden);
        ModelConfig model{.n_layers = row.n_layers,
                          .hidden = row.hidden,
                          .n_heads = row.n_heads,
                          .seq_length = 2048,
                          .vocab_size = 1,
                          .position = PositionEmbedding::none};
        model.resolve();
        ParallelConfig parallel = row.parallel;
        parallel.vocab_divisible_by = 1;
        const StepShape step{
            .micro_batch = row.micro_batch, .seq_length = 2048, .n_micro_batches = 64};
        const MegatronMemory none = largest_megatron_memory(model, parallel, step, {DType::fp16});
        CHECK(in_gib(none.state) == Approx(row.state).epsilon(0.002));
        CHECK(in_gib(none.activations) == Approx(row.activations).epsilon(0.02));
        parallel.sequence_parallel = true;
        parallel.recompute.granularity = selective;
        CHECK(in_gib(largest_megatron_memory(model, parallel, step, {DType::fp16}).activations) ==
              Approx(row.selective).epsilon(0.02));
    }
}

TEST_CASE("full recomputation keeps one input for each group of layers") {
    // A stage has 4 layers with inputs [1024, 512] of 2 bytes an element. A layer that is not
    // recomputed stores 10 + 24 + 5 a s / h = 114 bytes for each element of its input (section 4.1;
    // a s / h = 8 x 1024 / 512).
    ModelConfig model{.n_layers = 4,
                      .hidden = 512,
                      .n_heads = 8,
                      .seq_length = 1024,
                      .vocab_size = 1,
                      .position = PositionEmbedding::none};
    model.resolve();
    ParallelConfig parallel;
    parallel.vocab_divisible_by = 1;
    const StepShape step{.micro_batch = 1, .seq_length = 1024, .n_micro_batches = 64};
    const auto activation_bytes = [&](Recompute::Method method, i64 n) {
        parallel.recompute = {Recompute::Granularity::full, method, n};
        return largest_megatron_memory(model, parallel, step, {DType::fp16}).activations;
    };
    const i64 rows = 1024 * 512;
    using enum Recompute::Method;
    const i64 ends = activation_bytes(uniform, 1) - (4 * 2 + 114) * rows;  // embedding and head
    CHECK(ends > 0);
    CHECK(activation_bytes(uniform, 2) == ends + (2 * 2 + 2 * 114) * rows);
    CHECK(activation_bytes(uniform, 3) == ends + (2 * 2 + 3 * 114) * rows);
    CHECK(activation_bytes(uniform, 9) == ends + (2 + 4 * 114) * rows);
    CHECK(activation_bytes(block, 1) == ends + (2 + 3 * 114 + 114) * rows);
    CHECK(activation_bytes(block, 4) == ends + (4 * 2 + 114) * rows);
}
