// SPDX-License-Identifier: Apache-2.0
// The CUDA backend's workspace: what the operation that needs most takes; they use it in turns.
#include <algorithm>

#include "base/error.hpp"
#include "spec/cuda_scratch.hpp"
#include "spec/memory.hpp"

namespace lm::spec {

namespace {

// What cuDNN's backward takes: an fp32 sum of dQ, or, to be deterministic on Hopper, a 16-bit dP of
// all queries and keys (cudnn-frontend, node/scaled_dot_product_flash_attention.h); two numbers a
// query; dK and dV of each head where heads share theirs; and some room for the engine. Where an
// engine wants more, our own kernels do its work.
i64 cudnn_attention_bytes(const ModelConfig& config, const StepShape& step, i64 heads,
                          GpuAttention attention) {
    if (attention == GpuAttention::flash || size_of(step.compute) != 2) return 0;
    constexpr i64 room = i64{16} << 20;
    const i64 queries = step.micro_batch * heads * round_up(step.seq_length, 128);
    const i64 keys = round_up(step.seq_length, 128);
    const i64 sums = attention == GpuAttention::cudnn ? 4 * queries * config.head_dim  // dQ
                                                      : 2 * queries * keys;            // dP
    const i64 shared = config.n_groups < config.n_heads ? 2 * 2 * queries * config.head_dim : 0;
    return cuda_piece(sums + shared + 2 * 4 * queries + room);
}

}  // namespace

i64 cuda_workspace_bytes(const ModelConfig& config, const ParallelConfig& parallel,
                         const StepShape& step, i64 tp_rank, GpuAttention kernels) {
    if (config.head_dim > cuda_widest_head) {
        usage_error("--kv-channels", "{}: on a GPU, heads are at most {} wide", config.head_dim,
                    cuda_widest_head);
    }
    constexpr i64 f32 = sizeof(float);
    const i64 rows = step.rows();
    const i64 groups = ceil_div(config.n_groups, parallel.tp);
    // The widest bias gradient: of query, key and value, of the MLP (gate and up), or of hidden.
    const i64 widest = std::max({config.hidden, 2 * ceil_div(config.ffn_hidden, parallel.tp),
                                 groups * (config.qkv_rows() / config.n_groups)});
    const i64 product =
        cuda_piece(cuda_product_bytes) + cuda_piece(f32 * column_sum_floats(rows, widest));
    const i64 norm = cuda_piece(f32 * std::max(norm_gradient_floats(config.hidden),
                                               column_sum_floats(rows, 2 * config.hidden)));
    const i64 heads = tensor_share(config, parallel, tp_rank).n_heads;
    const i64 attention =
        std::max(cuda_piece(f32 * cuda_attention_floats(step.micro_batch, heads, step.seq_length)),
                 cudnn_attention_bytes(config, step, heads, kernels));
    const i64 sums = cuda_piece(cuda_sum_blocks * static_cast<i64>(sizeof(double)));
    return std::max({product, norm, attention, sums, cuda_embedding_bytes(rows, config.hidden)});
}

}  // namespace lm::spec
