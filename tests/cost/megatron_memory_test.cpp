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

double gib(i64 bytes) {
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
        CHECK(gib(none.state) == Approx(row.state).epsilon(0.002));
        CHECK(gib(none.activations) == Approx(row.activations).epsilon(0.02));
        parallel.sequence_parallel = true;
        parallel.recompute.granularity = selective;
        CHECK(gib(largest_megatron_memory(model, parallel, step, {DType::fp16}).activations) ==
              Approx(row.selective).epsilon(0.02));
    }
}
