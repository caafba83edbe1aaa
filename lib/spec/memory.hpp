// SPDX-License-Identifier: Apache-2.0
// The memory plan of a rank: every activation by name, with its shape, lifetime and offset, and the
// bytes of the buffers. lm-train allocates by this plan and lm-estimate prints it: the same
// numbers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "spec/layout.hpp"

namespace lm::spec {

struct StepShape {
    i64 micro_batch = 1;      // B
    i64 seq_length = 0;       // T
    i64 n_micro_batches = 1;  // of a step and a rank; a pipeline keeps several in flight
    i64 rows() const { return micro_batch * seq_length; }
};

// per_layer: kept from forward to backward, one per layer; once: one for the whole step;
// forward and backward: scratch that is dead outside its half of the step, so the two overlap.
enum class Lifetime { per_layer, once, forward, backward };

struct ActivationSpec {
    std::string name;
    Shape shape;
    DType dtype = DType::fp32;
    Lifetime lifetime = Lifetime::once;
    bool head = false;  // exists on the last pipeline stage only
    i64 bytes() const { return shape.numel() * size_of(dtype); }
};

// Profile of the CPU backend: residual + norm fused, GELU input and output both kept, logits never
// whole (head_chunk_rows rows at a time).
std::vector<ActivationSpec> activation_table(const ModelConfig& config,
                                             const ParallelConfig& parallel, const StepShape& step);

// Rows of logits that exist at a time: a multiple of 64 that keeps them within 128 MiB, or all
// rows.
i64 head_chunk_rows(i64 rows, i64 local_vocab);

struct PlacedActivation {
    std::string name;
    i64 layer = -1;     // local layer of a per_layer activation
    i64 in_flight = 0;  // which of the micro-batches in flight it belongs to
    Shape shape;
    DType dtype = DType::fp32;
    i64 offset = 0;  // bytes from the start of the activation buffer
};

struct ActivationPlan {
    std::vector<PlacedActivation> placed;
    i64 bytes = 0;
};

// What one pipeline stage keeps: inputs and layers of every micro-batch in flight.
struct StageShape {
    i64 n_layers = 0;
    bool last = true;
    i64 in_flight = 1;  // micro-batches between their forward and their backward
};
// 1F1B keeps min(stages from here to the end, micro-batches of a step) in flight (arXiv
// 2104.04473, section 2.2).
StageShape stage_shape(const ModelConfig& config, const ParallelConfig& parallel,
                       const StepShape& step, i64 pp_rank);

ActivationPlan plan_activations(const ModelConfig& config, const ParallelConfig& parallel,
                                const StepShape& step, const StageShape& stage);
// The only stage, of n_local_layers layers.
ActivationPlan plan_activations(const ModelConfig& config, const ParallelConfig& parallel,
                                const StepShape& step, i64 n_local_layers);

// Bytes that one op of the CPU backend may need at most, on top of its arguments: partial sums of
// reductions, scratchpads and packed operands of matrix products of every thread.
i64 cpu_workspace_bytes(const ModelConfig& config, const ParallelConfig& parallel,
                        const StepShape& step, i64 n_threads);

struct MemoryPlan {
    i64 weights = 0;
    i64 masters = 0;  // fp32 masters of 16-bit weights; 0 when the weights are fp32 themselves
    i64 gradients = 0;
    i64 optimizer = 0;  // Adam's two moments
    i64 activations = 0;
    i64 workspace = 0;
    i64 total() const {
        return weights + masters + gradients + optimizer + activations + workspace;
    }
};

struct Precision {
    DType weights = DType::fp32;  // f32, bf16, f16
};

MemoryPlan plan_memory(const ModelConfig& config, const ParallelConfig& parallel,
                       const StepShape& step, const Precision& precision, i64 n_threads,
                       i64 tp_rank, i64 pp_rank);

}  // namespace lm::spec
