// SPDX-License-Identifier: Apache-2.0
// The bytes of the workspace. The operations use the workspace in turn, so it is large enough for
// the largest of them.
#pragma once

#include "cost/activation_plan.hpp"
#include "spec/numerics.hpp"

namespace lm::cost {

// Returns the workspace bytes of the CPU backend: partial sums of reductions, and for each thread
// the scratchpads and packed operands of matrix products.
i64 cpu_workspace_bytes(const spec::ModelConfig& config, const spec::ParallelConfig& parallel,
                        const StepShape& step, i64 n_threads);

// Returns the workspace bytes of the CUDA backend (cost/cuda_scratch.hpp). With cuDNN attention,
// the result includes an estimate for the attention backward.
i64 cuda_workspace_bytes(const spec::ModelConfig& config, const spec::ParallelConfig& parallel,
                         const StepShape& step, i64 tp_rank, spec::GpuAttention attention);

}  // namespace lm::cost
