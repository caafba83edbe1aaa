// SPDX-License-Identifier: Apache-2.0
// Lists every activation of a rank by name, with its shape, lifetime and offset in the activation
// buffer. lm-train allocates this plan and lm-estimate prints its size.
//
// Why a plan and not an allocator. A step of training is a straight program: which activations
// exist, how large they are and when they die is known from the configuration. A caching allocator,
// as in PyTorch, finds that out by running, with fragments that grow until a run dies of "out of
// memory" with free memory left, on one rank of thousands, days later.
//
// With a plan the largest size is known before the first step, on a machine without a GPU, and by
// a cron job: lm-estimate prints the bytes that lm-train allocates, because both read this table. A
// layout that does not fit is refused in a second. Addresses are the same in every step, so that
// communicators register buffers once, a graph of kernels could be captured, and a resumed run
// repeats the same bits. And a step allocates nothing, which a test counts.
//
// The price: every operation states its scratch memory in advance (workspace.hpp), and a new
// activation must be entered here before the model may use it. That is the point of the table.
#pragma once

#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "spec/rank_layout.hpp"

namespace lm::cost {

// The largest size of the logits in memory, in bytes, on a CPU and on a GPU. The head computes the
// logits of one chunk of rows at a time. For each chunk, a GPU reads and writes the whole fp32
// gradient of the head's weight. Large chunks reduce this traffic and give GEMMs that use all SMs.
constexpr i64 cpu_logits_bytes = i64{128} << 20;
constexpr i64 cuda_logits_bytes = i64{1} << 30;

struct StepShape {
    i64 micro_batch = 1;          // B
    i64 seq_length = 0;           // T
    i64 n_micro_batches = 1;      // micro-batches of a step on one rank
    DType compute = DType::fp32;  // dtype of activations; statistics are always fp32
    i64 logits_bytes = cpu_logits_bytes;
    // True: a GPU, which needs the order of the rows for the embedding's gradient.
    bool cuda = false;
    i64 rows() const { return micro_batch * seq_length; }
};

// The number of copies of an activation, and how long each copy is used. layer: of one layer, a
// copy for each micro-batch in flight, from forward to backward. per_micro_batch: a copy for each
// micro-batch in flight. once: a single copy, for the whole step. forward, backward: one scratch
// copy, used in that pass only. The scratch of forward and the scratch of backward share memory.
enum class Lifetime { layer, per_micro_batch, once, forward, backward };

// The pipeline chunks that have an activation: all chunks, the chunks with the embedding, or the
// chunks with the head.
enum class Holder { all, embedding, head };

struct ActivationSpec {
    std::string_view name;
    Shape shape;
    DType dtype = DType::fp32;
    Lifetime lifetime = Lifetime::once;
    Holder holder = Holder::all;
    bool cheap = false;  // recomputed by selective recomputation
    i64 layer = -1;      // layer of the whole model, of an activation with Lifetime::layer
    i64 bytes() const { return shape.numel() * size_of(dtype); }
};

// Returns the activations of a tensor rank that has all layers. Residual addition and norm are one
// operation. The input and the output of GELU are both stored. Only the logits of head_chunk_rows()
// rows exist at a time. Scratch has the shape of the layer that needs most.
std::vector<ActivationSpec> activation_table(const spec::ModelConfig& config,
                                             const spec::ParallelConfig& parallel,
                                             const StepShape& step, i64 tp_rank = 0);

// Adjacent local layers [begin, end) of a chunk that the backward pass recomputes as one group. The
// group of a layer is empty if all its activations are stored, or if only the cheap ones
// (ActivationSpec::cheap) are recomputed.
struct LayerGroup {
    i64 begin = 0;
    i64 end = 0;
    bool empty() const { return begin == end; }
};
// Returns the group of local layer `layer` of a chunk with `n_layers` layers.
LayerGroup recompute_group(const spec::Recompute& recompute, i64 n_layers, i64 layer);
// Returns how many of the `n_layers` layers of a chunk are in a group that is not empty.
i64 n_recomputed_layers(const spec::Recompute& recompute, i64 n_layers);
// Returns the share of the model's layers that are in groups that are not empty, 0 to 1. The
// backward pass computes the forward pass of these layers again.
double recomputed_share(const spec::ModelConfig& config, const spec::ParallelConfig& parallel);

// Returns the number of rows in a chunk of the head. Only the logits of one chunk are in memory at
// a time, in at most step.logits_bytes or in 64 rows, whichever is more. There are as few chunks as
// this limit allows, of equal sizes rounded to multiples of 64 rows, so that the last chunk is not
// much smaller than the others.
i64 head_chunk_rows(const StepShape& step, i64 local_vocab);

// One activation in the buffer. Recomputed activations of different layers and micro-batches use
// the same memory in turn, so their offsets are equal.
struct PlacedActivation {
    std::string_view name;
    i64 chunk = -1;  // chunk of the stage; -1: all chunks share it
    i64 slot = -1;   // slot among the chunk's micro-batches in flight; -1: all slots share it
    i64 layer = -1;  // local layer of an activation with Lifetime::layer
    Shape shape;
    DType dtype = DType::fp32;
    i64 offset = 0;  // bytes from the start of the activation buffer
};

struct ActivationPlan {
    std::vector<PlacedActivation> placed;
    i64 bytes = 0;
};

// One chunk of a pipeline stage.
struct ChunkShape {
    spec::ModelPart part;
    i64 in_flight = 1;  // micro-batches between their forward and their backward
};
struct StageShape {
    std::vector<ChunkShape> chunks;
    i64 tp_rank = 0;
    std::vector<spec::ModelPart> parts() const;
};
StageShape stage_shape(const spec::ModelConfig& config, const spec::ParallelConfig& parallel,
                       const StepShape& step, i64 pp_rank, i64 tp_rank = 0);

// Returns for each chunk of a stage the largest number of micro-batches that are between their
// forward and their backward at the same time. Follows the schedule of spec/pipeline_schedule.hpp
// with at most n_micro_batches in a step. Micro-batch i of a chunk uses slot i % in_flight, because
// the chunk's backward passes run in the order of its forward passes.
std::vector<i64> micro_batches_in_flight(const spec::ParallelConfig& parallel, i64 n_micro_batches,
                                         i64 pp_rank);

ActivationPlan plan_activations(const spec::ModelConfig& config,
                                const spec::ParallelConfig& parallel, const StepShape& step,
                                const StageShape& stage);

// Returns ActivationPlan::bytes without placing the activations. `table` is activation_table() of
// the stage's tensor rank.
i64 activation_bytes(const std::vector<ActivationSpec>& table, const spec::Recompute& recompute,
                     const StageShape& stage);

}  // namespace lm::cost
