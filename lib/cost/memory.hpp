// SPDX-License-Identifier: Apache-2.0
// The memory plan of a rank: the bytes of its buffers. lm-train allocates these buffers and
// lm-estimate prints the plan.
#pragma once

#include "cost/activation_plan.hpp"
#include "spec/numerics.hpp"

namespace lm::cost {

// The device that computes. The plan includes the workspace of this device.
struct Processor {
    i64 n_threads = 1;  // threads of the CPU
    bool cuda = false;
    spec::GpuAttention attention = spec::GpuAttention::flash;
    i64 logits_bytes() const { return cuda ? cuda_logits_bytes : cpu_logits_bytes; }
};

// GPU memory that is neither buffers nor NCCL: the driver's context, CUDA's libraries and the code
// of kernels.
constexpr i64 cuda_allowance_bytes = i64{2} << 30;

// The bytes of the buffers of a rank.
struct MemoryPlan {
    i64 weights = 0;
    i64 masters = 0;  // fp32 masters of 16-bit weights; 0 with fp32 weights
    i64 gradients = 0;
    i64 optimizer = 0;  // the optimizer's state (spec::states_of)
    i64 activations = 0;
    i64 workspace = 0;
    // Host memory for a copy of the rank's part of a checkpoint. total() does not include it.
    i64 save_buffer = 0;
    i64 total() const {
        return weights + masters + gradients + optimizer + activations + workspace;
    }
};

// Returns the bytes of the part of a checkpoint that one data-parallel rank of stage `pp_rank`
// writes: weights, masters and optimizer state of its share of the elements.
i64 checkpoint_share(const spec::ModelConfig& config, const spec::ParallelConfig& parallel,
                     const spec::Precision& precision, i64 tp_rank, i64 pp_rank);

// The part of the plan that all stages of one tensor rank share.
struct RankMemory {
    spec::ParallelConfig parallel;
    spec::Precision precision;
    spec::RankElements elements;
    std::vector<ActivationSpec> activations;
    i64 workspace = 0;
    // Returns the plan of a stage; its save_buffer is 0.
    MemoryPlan of(const StageShape& stage) const;
};
// `elements` is rank_elements() of the same tensor rank and of `precision.optimizer`. Sets
// `step.compute` and `step.logits_bytes` from `precision` and `processor`.
RankMemory rank_memory(const spec::ModelConfig& config, const spec::ParallelConfig& parallel,
                       const StepShape& step, const spec::Precision& precision,
                       const Processor& processor, const spec::RankElements& elements, i64 tp_rank);

// Returns the plan of tensor rank `tp_rank` of stage `pp_rank`: rank_memory().of(stage).
MemoryPlan plan_memory(const spec::ModelConfig& config, const spec::ParallelConfig& parallel,
                       const StepShape& step, const spec::Precision& precision,
                       const Processor& processor, i64 tp_rank, i64 pp_rank);

}  // namespace lm::cost
