// SPDX-License-Identifier: Apache-2.0
// The CPU backend's workspace: one formula, which cpu/ checks its needs against.
#include "spec/memory.hpp"

namespace lm::spec {

i64 cpu_workspace_bytes(const ModelConfig& config, const ParallelConfig& parallel,
                        const StepShape& step, i64 n_threads) {
    (void)parallel;
    // Partial sums of column reductions, one row of the widest tensor per 64 rows of input.
    const i64 widest = std::max(config.ffn_hidden * 2, config.qkv_rows());
    const i64 partials = ceil_div(step.rows(), 64) * widest * size_of(DType::fp32);
    const i64 per_thread = i64{4} << 20;
    return partials + n_threads * per_thread;
}

}  // namespace lm::spec
