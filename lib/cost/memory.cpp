// SPDX-License-Identifier: Apache-2.0
#include "cost/memory.hpp"

#include "cost/workspace.hpp"

namespace lm::cost {

using namespace spec;
namespace {

// Returns the bytes of the optimizer's state for all elements of a flat buffer.
i64 state_bytes(const ElementCount& count, const ParallelConfig& parallel) {
    i64 bytes = 0;
    for (size_t i = 0; i < all_states.size(); ++i) {
        const i64 n = flat_elements(count.with_state[i], parallel);
        bytes += checked_mul(n, size_of(all_states[i].dtype));
    }
    return bytes;
}

}  // namespace

RankMemory rank_memory(const ModelConfig& config, const ParallelConfig& parallel,
                       const StepShape& step, const Precision& precision,
                       const Processor& processor, const RankElements& elements, i64 tp_rank) {
    StepShape shape = step;
    shape.compute = precision.weights;
    shape.logits_bytes = processor.logits_bytes();
    shape.cuda = processor.cuda;
    return {.parallel = parallel,
            .precision = precision,
            .elements = elements,
            .activations = activation_table(config, parallel, shape, tp_rank),
            .workspace =
                processor.cuda
                    ? cuda_workspace_bytes(config, parallel, shape, tp_rank, processor.attention)
                    : cpu_workspace_bytes(config, parallel, step, processor.n_threads)};
}

MemoryPlan RankMemory::of(const StageShape& stage) const {
    const ElementCount count = elements.of(stage.parts());
    const i64 n = flat_elements(count.aligned, parallel);
    const i64 fp32 = checked_mul(n, size_of(DType::fp32));
    // With ZeRO stage 1, each data-parallel rank has masters and optimizer state only for its part
    // of the elements (Rajbhandari et al. 2020, "ZeRO", section 5.1).
    const i64 n_shares = parallel.zero_stage == 0 ? 1 : parallel.dp;
    return {.weights = n * size_of(precision.weights),
            .masters = precision.weights == DType::fp32 ? 0 : fp32 / n_shares,
            .gradients = fp32,
            .optimizer = state_bytes(count, parallel) / n_shares,
            .activations = activation_bytes(activations, parallel.recompute, stage),
            .workspace = workspace};
}

MemoryPlan plan_memory(const ModelConfig& config, const ParallelConfig& parallel,
                       const StepShape& step, const Precision& precision,
                       const Processor& processor, i64 tp_rank, i64 pp_rank) {
    return rank_memory(config, parallel, step, precision, processor,
                       rank_elements(config, parallel, tp_rank, precision.optimizer), tp_rank)
        .of(stage_shape(config, parallel, step, pp_rank, tp_rank));
}

i64 checkpoint_share(const ModelConfig& config, const ParallelConfig& parallel,
                     const Precision& precision, i64 tp_rank, i64 pp_rank) {
    const ElementCount count = rank_elements(config, parallel, tp_rank, precision.optimizer)
                                   .of(stage_parts(config, parallel, pp_rank));
    const i64 n = flat_elements(count.aligned, parallel) / parallel.dp;
    const i64 masters = precision.weights == DType::fp32 ? 0 : size_of(DType::fp32);
    return n * (size_of(precision.weights) + masters) + state_bytes(count, parallel) / parallel.dp;
}

}  // namespace lm::cost
