// SPDX-License-Identifier: Apache-2.0
#include "spec/memory.hpp"

#include <algorithm>

namespace lm::spec {
namespace {

constexpr i64 buffer_alignment = 64;  // bytes: a cache line, the widest vector

i64 aligned(i64 bytes) {
    return round_up(bytes, buffer_alignment);
}

}  // namespace

i64 head_chunk_rows(i64 rows, i64 local_vocab) {
    constexpr i64 most_bytes = i64{128} << 20;
    const i64 fit = most_bytes / (local_vocab * size_of(DType::fp32)) / 64 * 64;
    return std::min(rows, std::max<i64>(fit, 64));
}

std::vector<ActivationSpec> activation_table(const ModelConfig& config,
                                             const ParallelConfig& parallel,
                                             const StepShape& step) {
    const i64 b = step.micro_batch;
    const i64 t = step.seq_length;
    const i64 n = step.rows();
    const i64 c = config.hidden;
    const i64 q = config.qkv_rows() / parallel.tp;
    const i64 a = config.attention_width() / parallel.tp;
    const i64 f = config.ffn_hidden / parallel.tp;
    const i64 up = is_gated(config.activation) ? 2 * f : f;
    const i64 v = padded_vocab(config, parallel) / parallel.tp;
    constexpr bool head = true;
    using enum Lifetime;
    return {
        // Inputs of a micro-batch, copied from the loader.
        {"tokens", {b, t}, DType::int32, once},
        {"targets", {b, t}, DType::int32, once},
        {"positions", {b, t}, DType::int32, once},
        {"doc_start", {b, t}, DType::int32, once},
        {"loss_weight", {b, t}, DType::fp32, once},
        {"sample_ids", {b}, DType::int64, once},
        // A block: residual stream, norm, attention, residual stream, norm, MLP.
        {"residual", {n, c}, DType::fp32, per_layer},
        {"attention_norm", {n, c}, DType::fp32, per_layer},
        {"attention_norm_mean", {n}, DType::fp32, per_layer},
        {"attention_norm_rstd", {n}, DType::fp32, per_layer},
        {"qkv", {b, t, q}, DType::fp32, per_layer},
        {"attention", {b, t, a}, DType::fp32, per_layer},
        {"attention_lse", {b, config.n_heads / parallel.tp, t}, DType::fp32, per_layer},
        {"residual_mid", {n, c}, DType::fp32, per_layer},
        {"mlp_norm", {n, c}, DType::fp32, per_layer},
        {"mlp_norm_mean", {n}, DType::fp32, per_layer},
        {"mlp_norm_rstd", {n}, DType::fp32, per_layer},
        {"mlp_up", {n, up}, DType::fp32, per_layer},
        {"mlp_activation", {n, f}, DType::fp32, per_layer},
        // After the last block.
        {"final_residual", {n, c}, DType::fp32, once},
        {"final_norm", {n, c}, DType::fp32, once, head},
        {"final_norm_mean", {n}, DType::fp32, once, head},
        {"final_norm_rstd", {n}, DType::fp32, once, head},
        {"row_max", {n}, DType::fp32, once, head},
        {"row_sum", {n}, DType::fp32, once, head},
        {"target_logit", {n}, DType::fp32, once, head},
        {"losses", {b, t}, DType::fp32, once, head},
        {"dfinal", {n, c}, DType::fp32, once, head},  // gradient of final_norm, made with the head
        {"step_sums", {2}, DType::fp64, once},        // what the host reads once a step
        // A branch's output before it joins the residual stream; the head's logits, a chunk of
        // rows.
        {"branch", {n, c}, DType::fp32, forward},
        {"logits", {head_chunk_rows(n, v), v}, DType::fp32, forward, head},
        {"dresidual", {n, c}, DType::fp32, backward},
        {"dbranch", {n, c}, DType::fp32, backward},
        {"dnorm", {n, c}, DType::fp32, backward},
        {"dmlp", {n, up}, DType::fp32, backward},
        {"dattention", {b, t, a}, DType::fp32, backward},
        {"dqkv", {b, t, q}, DType::fp32, backward},
    };
}

StageShape stage_shape(const ModelConfig& config, const ParallelConfig& parallel,
                       const StepShape& step, i64 pp_rank) {
    return {.n_layers =
                first_layer(config, parallel, pp_rank + 1) - first_layer(config, parallel, pp_rank),
            .last = pp_rank == parallel.pp - 1,
            .in_flight = std::min(parallel.pp - pp_rank, step.n_micro_batches)};
}

ActivationPlan plan_activations(const ModelConfig& config, const ParallelConfig& parallel,
                                const StepShape& step, const StageShape& stage) {
    std::vector<ActivationSpec> table = activation_table(config, parallel, step);
    if (!stage.last) std::erase_if(table, [](const ActivationSpec& spec) { return spec.head; });
    ActivationPlan plan;
    const auto place = [&plan](const ActivationSpec& spec, i64 layer, i64 slot, i64& end) {
        plan.placed.push_back({spec.name, layer, slot, spec.shape, spec.dtype, end});
        end += aligned(spec.bytes());
    };
    i64 kept = 0;
    for (i64 slot = 0; slot < stage.in_flight; ++slot) {
        for (const ActivationSpec& spec : table) {
            if (spec.lifetime == Lifetime::once) place(spec, -1, slot, kept);
            if (spec.lifetime != Lifetime::per_layer) continue;
            for (i64 layer = 0; layer < stage.n_layers; ++layer) place(spec, layer, slot, kept);
        }
    }
    i64 forward_end = kept;
    i64 backward_end = kept;
    for (const ActivationSpec& spec : table) {
        if (spec.lifetime == Lifetime::forward) place(spec, -1, 0, forward_end);
        if (spec.lifetime == Lifetime::backward) place(spec, -1, 0, backward_end);
    }
    plan.bytes = std::max(forward_end, backward_end);
    return plan;
}

ActivationPlan plan_activations(const ModelConfig& config, const ParallelConfig& parallel,
                                const StepShape& step, i64 n_local_layers) {
    return plan_activations(config, parallel, step, StageShape{.n_layers = n_local_layers});
}

MemoryPlan plan_memory(const ModelConfig& config, const ParallelConfig& parallel,
                       const StepShape& step, const Precision& precision, i64 n_threads,
                       i64 tp_rank, i64 pp_rank) {
    const RankLayout layout = rank_layout(config, tensor_table(config), parallel, tp_rank, pp_rank);
    const i64 fp32 = checked_mul(layout.n_elements, size_of(DType::fp32));
    MemoryPlan plan;
    plan.weights = layout.n_elements * size_of(precision.weights);
    plan.masters = precision.weights == DType::fp32 ? 0 : fp32;
    plan.gradients = fp32;
    plan.optimizer = 2 * fp32;
    plan.activations =
        plan_activations(config, parallel, step, stage_shape(config, parallel, step, pp_rank))
            .bytes;
    plan.workspace = cpu_workspace_bytes(config, parallel, step, n_threads);
    return plan;
}

}  // namespace lm::spec
