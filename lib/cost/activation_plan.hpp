// SPDX-License-Identifier: Apache-2.0
// Every activation of a rank by name, with its shape, lifetime and place in the activation buffer.
#pragma once

#include <string>
#include <vector>

#include "base/dtype.hpp"
#include "spec/rank_layout.hpp"

namespace lm::cost {

// What the logits that exist at a time may take. A GPU adds the head's gradient of each chunk of
// rows to the fp32 sum in memory: chunks are large there, so that it is read and written a few
// times only, and the products fill the GPU.
constexpr i64 cpu_logits_bytes = i64{128} << 20;
constexpr i64 cuda_logits_bytes = i64{1} << 30;

struct StepShape {
    i64 micro_batch = 1;          // B
    i64 seq_length = 0;           // T
    i64 n_micro_batches = 1;      // of a step and a rank; a pipeline keeps several in flight
    DType compute = DType::fp32;  // of activations; statistics are fp32
    i64 logits_bytes = cpu_logits_bytes;
    i64 rows() const { return micro_batch * seq_length; }
};

// per_layer: from forward to backward, one per layer and micro-batch in flight; per_micro_batch:
// one per micro-batch in flight; once: one, alive in forward and backward; forward and backward:
// scratch that is dead outside its half, so the two overlap.
enum class Lifetime { per_layer, per_micro_batch, once, forward, backward };
enum class Holder { all, embedding, head };  // parts that have it

struct ActivationSpec {
    std::string name;
    Shape shape;
    DType dtype = DType::fp32;
    Lifetime lifetime = Lifetime::once;
    Holder holder = Holder::all;
    bool cheap = false;  // selective recompute makes it again
    i64 bytes() const { return shape.numel() * size_of(dtype); }
};

// Profile of the CPU backend: residual + norm fused, GELU input and output both kept, logits never
// whole (head_chunk_rows rows at a time).
std::vector<ActivationSpec> activation_table(const spec::ModelConfig& config,
                                             const spec::ParallelConfig& parallel,
                                             const StepShape& step, i64 tp_rank = 0);

// Local layers [begin, end) of a part that backward makes again together with `layer`; empty when
// `layer` is kept or only its cheap activations are made again.
struct LayerGroup {
    i64 begin = 0;
    i64 end = 0;
    bool empty() const { return begin == end; }
};
LayerGroup recompute_group(const spec::Recompute& recompute, i64 n_layers, i64 layer);

// Rows of logits that exist at a time: as few chunks as keep them within step.logits_bytes, all
// alike but for multiples of 64, so that no last one is too small for the processor; or all rows.
i64 head_chunk_rows(const StepShape& step, i64 local_vocab);

// What is made again has one place for all layers and micro-batches that take turns in it.
struct PlacedActivation {
    std::string name;
    i64 chunk = -1;  // of the stage; -1: all chunks share it
    i64 slot = -1;   // which of the chunk's micro-batches in flight it belongs to; -1: all
    i64 layer = -1;  // local layer of a per_layer activation
    Shape shape;
    DType dtype = DType::fp32;
    i64 offset = 0;  // bytes from the start of the activation buffer
};

struct ActivationPlan {
    std::vector<PlacedActivation> placed;
    i64 bytes = 0;
};

// What one pipeline stage computes.
struct ChunkShape {
    spec::ModelPart part;
    i64 in_flight = 1;  // micro-batches between their forward and their backward
};
struct StageShape {
    std::vector<ChunkShape> chunks;
    i64 tp_rank = 0;
};
StageShape stage_shape(const spec::ModelConfig& config, const spec::ParallelConfig& parallel,
                       const StepShape& step, i64 pp_rank, i64 tp_rank = 0);

// Most micro-batches of a chunk that are between forward and backward in the schedule of
// spec/pipeline_schedule.hpp, with up to n_micro_batches in a step. Micro-batch i of a chunk uses
// slot i % in_flight: backward passes come in the order of the forward passes.
i64 micro_batches_in_flight(const spec::ParallelConfig& parallel, i64 n_micro_batches, i64 pp_rank,
                            i64 chunk);

ActivationPlan plan_activations(const spec::ModelConfig& config,
                                const spec::ParallelConfig& parallel, const StepShape& step,
                                const StageShape& stage);

}  // namespace lm::cost
