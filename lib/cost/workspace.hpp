// SPDX-License-Identifier: Apache-2.0
// Bytes of the workspace, which operations use in turn: the maximum over all
// operations.
#pragma once

#include "cost/activation_plan.hpp"
#include "spec/numerics.hpp"

namespace lm::cost {

// Returns the bytes for the CPU backend: partial sums of reductions, and for each thread
// scratchpads and packed operands of matrix products.
i64 cpu_workspace_bytes(const spec::ModelConfig& config, const spec::ParallelConfig& parallel,
                        const StepShape& step, i64 n_threads);

// Returns the bytes for the CUDA backend (cost/cuda_scratch.hpp). With cuDNN attention, an estimate
// of the workspace of its backward is included.
i64 cuda_workspace_bytes(const spec::ModelConfig& config, const spec::ParallelConfig& parallel,
                         const StepShape& step, i64 tp_rank, spec::GpuAttention attention);

}  // namespace lm::cost
