// SPDX-License-Identifier: Apache-2.0
#include "cost/workspace.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "cost/cpu_scratch.hpp"
#include "cost/cuda_scratch.hpp"

namespace lm::cost {

using namespace spec;
namespace {

// Returns the largest number of columns of the queries, keys and values of a layer on one tensor
// rank.
i64 widest_qkv(const ModelConfig& config, const ParallelConfig& parallel) {
    i64 widest = 0;
    for (const LayerConfig& layer : layer_kinds(config)) {
        widest = std::max(widest, ceil_div(layer.n_groups, parallel.tp) *
                                      (config.qkv_rows(layer) / layer.n_groups));
    }
    return widest;
}

}  // namespace

i64 cpu_workspace_bytes(const ModelConfig& config, const ParallelConfig& parallel,
                        const StepShape& step, i64 n_threads) {
    // A column reduction needs one row of the widest gradient for each block of rows; a norm needs
    // two rows, for the gradients of its weight and its bias.
    const i64 widest =
        std::max({2 * config.hidden, 2 * ceil_div(config.ffn_hidden, parallel.tp),
                  widest_qkv(config, parallel), config.qk_norm ? 4 * config.head_dim : 0});
    const i64 columns =
        ceil_div(step.rows(), reduction_rows) * widest * static_cast<i64>(sizeof(float));
    const i64 flat = max_flat_pieces * static_cast<i64>(sizeof(double));
    // The weight and bias of a norm, converted to fp32.
    const i64 norm_rows = 2 * round_up(config.hidden, 16) * static_cast<i64>(sizeof(float));
    // Each worker needs memory for the blocks of attention, for the rows of a norm, or for the
    // scratchpad and the tile of one of oneDNN's products.
    const i64 floats =
        std::max({attention_forward_floats(config.head_dim),
                  attention_backward_floats(step.seq_length, config.head_dim),
                  attention_forward_bf16_floats(step.seq_length, config.head_dim),
                  attention_backward_bf16_floats(step.seq_length, config.head_dim),
                  norm_scratch_rows * round_up(config.hidden, 16), library_product_floats});
    constexpr i64 alignment = 256;
    const i64 product = product_floats(n_threads) * static_cast<i64>(sizeof(float));
    const i64 worker = round_up(floats * static_cast<i64>(sizeof(float)), alignment);
    return round_up(columns, alignment) + norm_rows + flat +
           std::max(n_threads * worker, round_up(product, alignment));
}

namespace {

// Returns the bytes of the workspace of cuDNN's attention backward (cudnn-frontend,
// node/scaled_dot_product_flash_attention.h). dQ, dK and dV are the gradients of queries, keys and
// values. The workspace contains an fp32 sum of dQ; two numbers for each query; dK and dV of each
// head when heads share keys and values; and 16 MiB for the engine. When an engine needs more, the
// CUDA backend uses its own kernels instead.
i64 cudnn_attention_bytes(const ModelConfig& config, const StepShape& step, const HeadShare& heads,
                          GpuAttention attention) {
    if (attention == GpuAttention::flash || !is_half(step.compute)) return 0;
    if (config.attention_dropout > 0) return 0;  // lm-train's kernels run instead of cuDNN
    constexpr i64 room = i64{16} << 20;
    const i64 queries = step.micro_batch * heads.n_heads * round_up(step.seq_length, 128);
    const i64 sums = 4 * queries * config.head_dim;  // dQ
    const i64 shared = heads.n_groups < heads.n_heads ? 2 * 2 * queries * config.head_dim : 0;
    return cuda_piece(sums + shared + 2 * 4 * queries + room);
}

}  // namespace

i64 cuda_workspace_bytes(const ModelConfig& config, const ParallelConfig& parallel,
                         const StepShape& step, i64 tp_rank, GpuAttention kernels) {
    if (config.head_dim > cuda_widest_head) {
        usage_error("--kv-channels", "head size {} exceeds {}, the largest on a GPU",
                    config.head_dim, cuda_widest_head);
    }
    constexpr i64 fp32 = sizeof(float);
    const i64 rows = step.rows();
    // The columns of the widest bias gradient: query, key and value together; gate and up of the
    // MLP together; or the hidden size.
    const i64 widest = std::max({config.hidden, 2 * ceil_div(config.ffn_hidden, parallel.tp),
                                 widest_qkv(config, parallel)});
    const i64 product =
        cuda_piece(cuda_product_bytes) + cuda_piece(fp32 * column_sum_floats(rows, widest));
    const i64 norm = cuda_piece(fp32 * std::max(norm_gradient_floats(config.hidden),
                                                column_sum_floats(rows, 2 * config.hidden)));
    const i64 head_norm =
        config.qk_norm ? cuda_piece(fp32 * head_norm_floats(rows, config.head_dim)) : 0;
    i64 attention = 0;
    for (const LayerConfig& layer : layer_kinds(config)) {
        const HeadShare heads = head_share(config, layer, parallel, tp_rank);
        attention =
            std::max({attention,
                      cuda_piece(fp32 * cuda_attention_floats(step.micro_batch, heads.n_heads,
                                                              step.seq_length)),
                      cudnn_attention_bytes(config, step, heads, kernels)});
    }
    const i64 sums = cuda_piece(cuda_sum_blocks * static_cast<i64>(sizeof(double)));
    return std::max(
        {product, norm, head_norm, attention, sums, cuda_embedding_bytes(rows, config.hidden)});
}

}  // namespace lm::cost
