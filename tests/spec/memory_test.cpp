// SPDX-License-Identifier: Apache-2.0
#include "spec/memory.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <string>

using namespace lm;
using namespace lm::spec;

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

void check_no_overlap(const ModelConfig& config, const ParallelConfig& parallel,
                      const StageShape& stage) {
    std::map<std::string, Lifetime> lifetimes;
    for (const ActivationSpec& spec : activation_table(config, parallel, step)) {
        CHECK(lifetimes.emplace(spec.name, spec.lifetime).second);
    }
    const ActivationPlan plan = plan_activations(config, parallel, step, stage);
    const auto end_of = [](const PlacedActivation& a) {
        return a.offset + a.shape.numel() * size_of(a.dtype);
    };
    for (size_t i = 0; i < plan.placed.size(); ++i) {
        const PlacedActivation& a = plan.placed[i];
        CAPTURE(a.name, a.layer);
        CHECK(a.offset % 64 == 0);
        CHECK(end_of(a) <= plan.bytes);
        const Live of_a = life_of(lifetimes.at(a.name));
        for (size_t j = i + 1; j < plan.placed.size(); ++j) {
            const PlacedActivation& b = plan.placed[j];
            const Live of_b = life_of(lifetimes.at(b.name));
            const bool together =
                (of_a.forward && of_b.forward) || (of_a.backward && of_b.backward);
            const bool overlap = a.offset < end_of(b) && b.offset < end_of(a);
            if (together && overlap) FAIL(a.name + " and " + b.name + " share bytes");
        }
    }
}

}  // namespace

TEST_CASE("no two live activations share a byte") {
    check_no_overlap(gpt2(), {}, {.n_layers = 12});
    check_no_overlap(gpt2(), {.tp = 4, .pp = 3}, {.n_layers = 4, .last = false, .in_flight = 3});
    check_no_overlap(gpt2(), {.tp = 2, .pp = 2}, {.n_layers = 6, .last = true, .in_flight = 1});
}

TEST_CASE("18 bytes a parameter in 16 bits, 16 in fp32") {
    const ModelConfig config = gpt2();
    const i64 n = rank_layout(config, tensor_table(config), {}, 0, 0).n_elements;
    const MemoryPlan fp32 = plan_memory(config, {}, step, {DType::fp32}, 2, 0, 0);
    CHECK(fp32.weights + fp32.masters + fp32.gradients + fp32.optimizer == 16 * n);
    const MemoryPlan bf16 = plan_memory(config, {}, step, {DType::bf16}, 2, 0, 0);
    CHECK(bf16.weights + bf16.masters + bf16.gradients + bf16.optimizer == 18 * n);
    CHECK(bf16.activations == fp32.activations);
    CHECK(fp32.total() == fp32.weights + fp32.masters + fp32.gradients + fp32.optimizer +
                              fp32.activations + fp32.workspace);
}

TEST_CASE("logits exist a chunk of rows at a time") {
    CHECK(head_chunk_rows(1024, 50304) == 640);  // 128 MiB / (50304 * 4 B) = 667 rows
    CHECK(head_chunk_rows(100, 50304) == 100);
    CHECK(head_chunk_rows(1 << 20, 1 << 24) == 64);
}

TEST_CASE("a pipeline keeps fewer micro-batches in flight towards its end") {
    const ModelConfig config = gpt2();
    const ParallelConfig parallel{.pp = 4};
    StepShape many = step;
    many.n_micro_batches = 100;
    for (i64 stage = 0; stage < 4; ++stage) {
        const StageShape shape = stage_shape(config, parallel, many, stage);
        CHECK(shape.n_layers == 3);
        CHECK(shape.in_flight == 4 - stage);
        CHECK(shape.last == (stage == 3));
    }
    many.n_micro_batches = 2;
    CHECK(stage_shape(config, parallel, many, 0).in_flight == 2);
    CHECK(stage_shape(config, {}, many, 0).in_flight == 1);
}

TEST_CASE("the only stage is the plan of all layers") {
    const ModelConfig config = gpt2();
    CHECK(plan_activations(config, {}, step, 12).bytes ==
          plan_memory(config, {}, step, {}, 1, 0, 0).activations);
}
