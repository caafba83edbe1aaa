// SPDX-License-Identifier: Apache-2.0
#include "cost/memory.hpp"

#include "cost/workspace.hpp"

namespace lm::cost {

using namespace spec;

MemoryPlan plan_memory(const ModelConfig& config, const ParallelConfig& parallel,
                       const StepShape& step, const Precision& precision,
                       const Processor& processor, i64 tp_rank, i64 pp_rank) {
    const RankLayout layout = rank_layout(config, tensor_table(config), parallel, tp_rank, pp_rank);
    const i64 n = flat_elements(layout, parallel);
    const i64 fp32 = checked_mul(n, size_of(DType::fp32));
    MemoryPlan plan;
    plan.weights = n * size_of(precision.weights);
    plan.gradients = fp32;
    // With ZeRO stage 1, each data-parallel rank has masters and moments only for its part of the
    // elements (Rajbhandari et al. 2020, "ZeRO", section 5.1).
    const i64 share = parallel.zero_stage == 0 ? fp32 : fp32 / parallel.dp;
    plan.masters = precision.weights == DType::fp32 ? 0 : share;
    plan.optimizer = 2 * share;
    StepShape shape = step;
    shape.compute = precision.weights;
    shape.logits_bytes = processor.logits_bytes();
    shape.cuda = processor.cuda;
    plan.activations = plan_activations(config, parallel, shape,
                                        stage_shape(config, parallel, step, pp_rank, tp_rank))
                           .bytes;
    plan.workspace =
        processor.cuda ? cuda_workspace_bytes(config, parallel, shape, tp_rank, processor.attention)
                       : cpu_workspace_bytes(config, parallel, step, processor.n_threads);
    return plan;
}

i64 checkpoint_share(const ModelConfig& config, const ParallelConfig& parallel,
                     const Precision& precision, i64 tp_rank, i64 pp_rank) {
    const RankLayout layout = rank_layout(config, tensor_table(config), parallel, tp_rank, pp_rank);
    const i64 n = ceil_div(flat_elements(layout, parallel), parallel.dp);
    const i64 masters = precision.weights == DType::fp32 ? 0 : size_of(DType::fp32);
    return n * (size_of(precision.weights) + masters + 2 * size_of(DType::fp32));
}

}  // namespace lm::cost
