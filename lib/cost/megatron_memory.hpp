// SPDX-License-Identifier: Apache-2.0
// The memory of a GPU in Megatron-LM with unfused attention, by the formulas of arXiv 2205.05198,
// sections 4 and 5.
#pragma once

#include "cost/activation_plan.hpp"
#include "spec/numerics.hpp"

namespace lm::cost {

struct MegatronMemory {
    i64 state = 0;        // weights, fp32 gradients, fp32 masters and moments
    i64 activations = 0;  // kept for the backward pass
    i64 total() const { return state + activations; }
};

// Returns the memory of a rank of stage `pp_rank`. Each 16-bit weight needs 18 bytes of state, each
// fp32 weight 16.
MegatronMemory megatron_memory(const spec::ModelConfig& model, const spec::ParallelConfig& parallel,
                               const StepShape& step, const spec::Precision& precision,
                               i64 pp_rank);

// Returns the memory of the stage that needs most.
MegatronMemory largest_megatron_memory(const spec::ModelConfig& model,
                                       const spec::ParallelConfig& parallel, const StepShape& step,
                                       const spec::Precision& precision);

}  // namespace lm::cost
