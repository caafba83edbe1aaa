// SPDX-License-Identifier: Apache-2.0
// The workspace of a rank: what the operation that needs most takes at a time.
#pragma once

#include "cost/activation_plan.hpp"
#include "spec/numerics.hpp"

namespace lm::cost {

// Bytes that one op of the CPU backend may need at most, on top of its arguments: partial sums of
// reductions, scratchpads and packed operands of matrix products of every thread.
i64 cpu_workspace_bytes(const spec::ModelConfig& config, const spec::ParallelConfig& parallel,
                        const StepShape& step, i64 n_threads);

// The same for the CUDA backend (cost/cuda_scratch.hpp).
// With `attention` by cuDNN, what its backward takes counts too, as far as is known of it.
i64 cuda_workspace_bytes(const spec::ModelConfig& config, const spec::ParallelConfig& parallel,
                         const StepShape& step, i64 tp_rank, spec::GpuAttention attention);

}  // namespace lm::cost
