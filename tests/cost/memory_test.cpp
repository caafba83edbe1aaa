// SPDX-License-Identifier: Apache-2.0
#include "cost/memory.hpp"

#include <map>
#include <string>

#include "cost/workspace.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::spec;
using namespace lm::cost;

namespace {

ModelConfig gpt2() {
    ModelConfig config;
    config.n_layers = 12;
    config.hidden = 768;
    config.n_heads = 12;
    config.seq_length = 1024;
    config.vocab_size = 50257;
    config.resolve();
    return config;
}

constexpr StepShape step{.micro_batch = 4, .seq_length = 256};

struct Live {
    bool forward = true;
    bool backward = true;
};

Live life_of(Lifetime lifetime) {
    return {lifetime != Lifetime::backward, lifetime != Lifetime::forward};
}

bool is_recomputed(const Recompute& recompute, const PlacedActivation& a,
                   const ActivationSpec& spec, i64 n_layers) {
    if (a.layer < 0) return false;
    if (recompute.granularity == Recompute::Granularity::selective) return spec.cheap;
    const LayerGroup group = recompute_group(recompute, n_layers, a.layer);
    return !group.empty() && !(a.name == "residual" && a.layer == group.begin);
}

// Checks that every activation of the plan is inside the buffer, and that two activations in use at
// the same time share no byte. A recomputed activation is in use only while its group of layers is
// computed.
void check_no_overlap(const ModelConfig& config, const ParallelConfig& parallel,
                      const StepShape& shape, i64 pp_rank) {
    std::map<std::string_view, ActivationSpec> specs;
    for (const ActivationSpec& spec : activation_table(config, parallel, shape)) {
        CHECK(specs.emplace(spec.name, spec).second == (spec.layer <= 0));
    }
    const StageShape stage = stage_shape(config, parallel, shape, pp_rank);
    const ActivationPlan plan = plan_activations(config, parallel, shape, stage);
    const auto turns = [&](const PlacedActivation& a) {
        if (a.chunk < 0) return false;
        const ModelPart& part = stage.chunks[static_cast<size_t>(a.chunk)].part;
        return is_recomputed(parallel.recompute, a, specs.at(a.name), part.n_layers());
    };
    const auto take_turns = [&](const PlacedActivation& a, const PlacedActivation& b) {
        if (!turns(a) || !turns(b)) return false;
        if (a.chunk != b.chunk || a.slot != b.slot) return true;
        const i64 n = stage.chunks[static_cast<size_t>(a.chunk)].part.n_layers();
        return parallel.recompute.granularity == Recompute::Granularity::selective
                   ? a.layer != b.layer
                   : recompute_group(parallel.recompute, n, a.layer).begin !=
                         recompute_group(parallel.recompute, n, b.layer).begin;
    };
    const auto end_of = [](const PlacedActivation& a) {
        return a.offset + a.shape.numel() * size_of(a.dtype);
    };
    CHECK(plan.bytes % 256 == 0);  // where the workspace begins
    CHECK(plan.bytes ==
          activation_bytes(activation_table(config, parallel, shape), parallel.recompute, stage));
    for (size_t i = 0; i < plan.placed.size(); ++i) {
        const PlacedActivation& a = plan.placed[i];
        CAPTURE(a.name, a.chunk, a.slot, a.layer);
        CHECK(a.offset >= 0);
        CHECK(a.offset % 256 == 0);
        CHECK(end_of(a) <= plan.bytes);
        const Live of_a = life_of(specs.at(a.name).lifetime);
        for (size_t j = i + 1; j < plan.placed.size(); ++j) {
            const PlacedActivation& b = plan.placed[j];
            if (take_turns(a, b)) continue;
            const Live of_b = life_of(specs.at(b.name).lifetime);
            const bool together =
                (of_a.forward && of_b.forward) || (of_a.backward && of_b.backward);
            const bool overlap = a.offset < end_of(b) && b.offset < end_of(a);
            if (together && overlap) FAIL(a.name << " and " << b.name << " share bytes");
        }
    }
}

}  // namespace

TEST_CASE("no two live activations share a byte") {
    using enum Recompute::Granularity;
    using enum Recompute::Method;
    StepShape several = step;
    several.n_micro_batches = 8;
    for (const Recompute recompute :
         {Recompute{}, Recompute{selective, uniform, 1}, Recompute{full, uniform, 1},
          Recompute{full, uniform, 5}, Recompute{full, block, 2}}) {
        check_no_overlap(gpt2(), {.recompute = recompute}, step, 0);
        for (i64 stage = 0; stage < 2; ++stage) {
            check_no_overlap(gpt2(), {.tp = 4, .pp = 2, .recompute = recompute}, several, stage);
            check_no_overlap(gpt2(),
                             {.tp = 2,
                              .pp = 2,
                              .sequence_parallel = true,
                              .n_chunks = 3,
                              .recompute = recompute},
                             several, stage);
        }
    }
}

TEST_CASE("18 bytes per parameter in 16 bits, 16 in fp32") {
    const ModelConfig config = gpt2();
    const i64 n = rank_layout(config, tensor_table(config), {}, 0, 0).n_elements;
    const MemoryPlan fp32 = plan_memory(config, {}, step, {DType::fp32}, {2}, 0, 0);
    CHECK(fp32.weights + fp32.masters + fp32.gradients + fp32.optimizer == 16 * n);
    const MemoryPlan bf16 = plan_memory(config, {}, step, {DType::bf16}, {2}, 0, 0);
    CHECK(bf16.weights + bf16.masters + bf16.gradients + bf16.optimizer == 18 * n);
    // In 16 bits, everything but statistics, inputs and the logits of a chunk takes half the bytes.
    const i64 logits = i64{512} * 50304 * 4;  // 512 rows in fp32, or 1024 rows in 16 bits
    CHECK(bf16.activations - logits > (fp32.activations - logits) / 2);
    CHECK(bf16.activations - logits < (fp32.activations - logits) * 52 / 100);
    CHECK(fp32.total() == fp32.weights + fp32.masters + fp32.gradients + fp32.optimizer +
                              fp32.activations + fp32.workspace);
}

TEST_CASE("one chunk of rows of the logits exists at a time") {
    // 128 MiB / (50304 * 4 B) = 667 rows: 1024 rows need two chunks. In 16 bits one is enough.
    CHECK(head_chunk_rows({.seq_length = 1024}, 50304) == 512);
    CHECK(head_chunk_rows({.seq_length = 1024, .compute = DType::bf16}, 50304) == 1024);
    CHECK(head_chunk_rows({.seq_length = 100}, 50304) == 100);
    CHECK(head_chunk_rows({.seq_length = 1 << 20}, 1 << 24) == 64);
    const StepShape gpu{.micro_batch = 64,
                        .seq_length = 1024,
                        .compute = DType::bf16,
                        .logits_bytes = Processor{.cuda = true}.logits_bytes()};
    // 1 GiB / (50304 * 2 B) = 10672 rows: 65,536 rows need seven chunks, the last one of 9088 rows.
    CHECK(head_chunk_rows(gpu, 50304) == 9408);
}

TEST_CASE("later stages of a pipeline have fewer micro-batches in flight") {
    const ModelConfig config = gpt2();
    const ParallelConfig parallel{.pp = 4};
    StepShape many = step;
    many.n_micro_batches = 100;
    for (i64 stage = 0; stage < 4; ++stage) {
        const StageShape shape = stage_shape(config, parallel, many, stage);
        REQUIRE(shape.chunks.size() == 1);
        CHECK(shape.chunks[0].part.n_layers() == 3);
        CHECK(shape.chunks[0].part.embedding == (stage == 0));
        CHECK(shape.chunks[0].part.head == (stage == 3));
        CHECK(shape.chunks[0].in_flight == 4 - stage);
    }
    CHECK(micro_batches_in_flight(parallel, 2, 0) == std::vector<i64>{2});
    CHECK(micro_batches_in_flight({}, 2, 0) == std::vector<i64>{1});
}

TEST_CASE("the first chunks of an interleaved stage have more micro-batches in flight") {
    // 2 stages of 2 chunks. The chunks of the forward passes are 0 0 1 1 0 0 1 1, those of the
    // backward passes 1 1 0 0. The warm-up has 4 forward passes on stage 0 and 2 on stage 1; a
    // backward pass follows each later forward pass.
    const ParallelConfig parallel{.pp = 2, .n_chunks = 2};
    CHECK(micro_batches_in_flight(parallel, 8, 0) == std::vector<i64>{4, 2});
    CHECK(micro_batches_in_flight(parallel, 8, 1) == std::vector<i64>{3, 1});
    CHECK(micro_batches_in_flight(parallel, 2, 0)[0] == 2);
}

TEST_CASE("recomputation and sequence parallelism store fewer bytes") {
    using enum Recompute::Granularity;
    using enum Recompute::Method;
    const ModelConfig config = gpt2();
    const i64 row = step.rows() * 4;  // bytes of one float of every row
    const auto bytes = [&](const ParallelConfig& parallel) {
        return plan_memory(config, parallel, step, {}, {}, 0, 0).activations;
    };
    const i64 kept = bytes({});
    // Selective recomputation stores the outputs of two norms and of the MLP's activation, 6 C
    // together, for one layer at a time instead of for all 12 layers.
    CHECK(kept - bytes({.recompute = {selective, uniform, 1}}) == 11 * 6 * 768 * row);
    // A layer stores 16 C, the statistics of 2 norms, and the log-sum-exp of H heads. With full
    // recomputation only C of each layer is stored.
    const i64 layer = (16 * 768 + 4 + 12) * row;
    const i64 branch = 768 * row;  // the output of a branch, which backward needs as well
    const i64 one = bytes({.recompute = {full, uniform, 1}});
    CHECK(kept - one >= 11 * layer - 12 * 768 * row - branch);
    CHECK(kept - one <= 11 * layer - 12 * 768 * row + branch);
    CHECK(bytes({.recompute = {full, uniform, 4}}) > one);
    CHECK(bytes({.recompute = {full, block, 6}}) > one);
    CHECK(bytes({.recompute = {full, block, 6}}) < kept);
    // With 2 ranks, sequence parallelism halves the residual stream, the norms and their statistics
    // in each layer.
    const i64 two = bytes({.tp = 2});
    const i64 cut = bytes({.tp = 2, .sequence_parallel = true});
    CHECK(two - cut > 12 * (4 * 768 + 4) * row / 2 - 4 * 768 * row);
}

TEST_CASE("a GPU's workspace holds attention's sums, and wide heads are refused") {
    const StepShape wide{.micro_batch = 512, .seq_length = 4096, .compute = DType::bf16};
    ModelConfig config = gpt2();
    config.n_heads = 96;
    CHECK(cuda_workspace_bytes(config, {}, wide, 0, GpuAttention::flash) >=
          4 * wide.rows() * config.n_heads);
    config.head_dim = 257;
    CHECK_THROWS_WITH(cuda_workspace_bytes(config, {}, wide, 0, GpuAttention::flash),
                      HasInOrder("--kv-channels: ", "257", "256"));
}

TEST_CASE("the workspace of cuDNN attention is counted when it is selected") {
    const StepShape shape{.micro_batch = 4, .seq_length = 4096, .compute = DType::bf16};
    ModelConfig config = gpt2();
    config.n_heads = config.n_groups = 16;
    config.head_dim = 128;
    config.attention_dropout = 0;
    const auto bytes = [&](GpuAttention attention) {
        return cuda_workspace_bytes(config, {}, shape, 0, attention);
    };
    const i64 queries = 4 * 16 * 4096;
    CHECK(bytes(GpuAttention::flash) < i64{64} << 20);
    CHECK(bytes(GpuAttention::cudnn) == 4 * queries * 128 + 8 * queries + (16 << 20));
    CHECK(bytes(GpuAttention::automatic) == bytes(GpuAttention::cudnn));
    config.attention_dropout = 0.1;  // lm-train's kernels
    CHECK(bytes(GpuAttention::cudnn) == bytes(GpuAttention::flash));
    config.attention_dropout = 0;
    config.n_groups = 4;  // dK and dV of each head
    CHECK(bytes(GpuAttention::cudnn) == 8 * queries * 128 + 8 * queries + (16 << 20));
}
