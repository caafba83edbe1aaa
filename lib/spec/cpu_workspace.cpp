// SPDX-License-Identifier: Apache-2.0
// The CPU backend's workspace: one formula, which cpu/ checks its needs against.
#include <algorithm>

#include "spec/cpu_scratch.hpp"
#include "spec/memory.hpp"

namespace lm::spec {

i64 cpu_workspace_bytes(const ModelConfig& config, const ParallelConfig& parallel,
                        const StepShape& step, i64 n_threads) {
    // Column reductions: one row of the widest gradient per block of rows, two for a norm's.
    const i64 groups = ceil_div(config.n_groups, parallel.tp);
    const i64 widest = std::max({2 * config.hidden, 2 * ceil_div(config.ffn_hidden, parallel.tp),
                                 groups * (config.qkv_rows() / config.n_groups)});
    const i64 columns =
        ceil_div(step.rows(), reduction_rows) * widest * static_cast<i64>(sizeof(float));
    const i64 flat = most_flat_pieces * static_cast<i64>(sizeof(double));
    // Weight and bias of a norm, widened.
    const i64 norm_rows = 2 * round_up(config.hidden, 16) * static_cast<i64>(sizeof(float));
    // Of every worker: a product's scratchpad and tile, attention's blocks, or rows of a norm.
    const i64 floats = std::max({attention_forward_floats(config.head_dim),
                                 attention_backward_floats(step.seq_length, config.head_dim),
                                 norm_scratch_rows * round_up(config.hidden, 16)});
    const i64 worker = std::max(matmul_scratch_bytes + matmul_tile_bytes,
                                floats * static_cast<i64>(sizeof(float)));
    constexpr i64 alignment = 256;
    return round_up(columns, alignment) + norm_rows + flat +
           n_threads * round_up(worker, alignment);
}

}  // namespace lm::spec
