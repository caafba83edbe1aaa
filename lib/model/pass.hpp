// SPDX-License-Identifier: Apache-2.0
// The arguments of every module of a chunk: the micro-batch's inputs, the scratch memory, and the
// part of the configuration that all modules read.
//
// Shapes, here and in all headers of lib/model. B: samples of the micro-batch. T: tokens of a
// sequence. N = B * T rows. R: rows of the residual stream on this rank: N, or N / tensor ranks
// with sequence parallelism. C: hidden size. H, G: attention heads and key-value groups of this
// tensor rank. D: width of a head. F: feed-forward columns of this tensor rank. U: rows of the up
// projection, F or 2F with a gate. E: rotated elements of a head. V: vocabulary
// rows of this tensor rank, padding included. S: rows that the head computes at a time. P:
// positions. `compute` is the dtype of weights and activations: fp32, bf16 or fp16.
#pragma once

#include "device/ops.hpp"
#include "model/tensor_parallel.hpp"
#include "spec/model.hpp"
#include "spec/rank_layout.hpp"

namespace lm::model {

using device::View;

// The inputs of one micro-batch. A view is none when the chunk does not read it.
struct MicroBatchInputs {
    View tokens;     // [B, T] int32; chunks with the embedding
    View positions;  // [B, T] int32; chunks with the embedding, and all with rotary embedding
    // [N] int32, on GPUs: row numbers sorted by token, and by position if positions are learned.
    View token_order, position_order;
    View targets;    // [B, T] int32; chunks with the head
    View loss_mask;  // [B, T] fp32; chunks with the head
    // [W * B, T] int32: first key that each query attends to; none: key 0. For each of the W
    // windows of the model (spec::windows()) B samples.
    View doc_start;
    View sample_ids;  // [B] int64: global sample numbers, the key of dropout
};

// Constants, and scratch memory that the micro-batches, layers and chunks of a rank use in turn.
struct Scratch {
    View step_sums;  // [step_sum_count] fp64; the CPU reads it once in each step
    View branch;     // [N, C] compute: output of attention, MLP or embedding
    // [R, C] compute: LayerActivations::middle of layers with a parallel residual, or none; in
    // backward the gradient of the stream without attention's part.
    View middle;
    View gathered;   // [N, C] compute: rows of all tensor ranks; sequence parallelism only
    View dresidual;  // [R, C] compute: gradient of the residual stream
    View dbranch;    // [R, C] compute: gradient of a branch before its dropout
    View dnorm;      // [N, C] compute: gradient of a norm's output
    // Attention.
    View dattention;  // [B, T, H*D] compute
    View dqkv;        // [B, T, (H+2G)*D] compute
    View dsquares;    // [2, N] fp32: sums of the backward of a norm of all heads, or none
    // [K * T, E] fp32: constants (model/positions.hpp), or none. For each of the K frequencies of
    // the model (spec::rotary_frequencies()) T positions.
    View rotary_angles;
    View query_scales;  // [T, D] fp32: constants, as rotary_angles, or none
    View alibi_slopes;  // [heads of all tensor ranks] fp32; constants, or none
    // MLP.
    View dmlp;    // [N, U] compute: gradient of the up projection's output
    View dgated;  // [N, F] compute: gradient of a gated activation's output, or none
    // Head, which computes S rows at a time (cost::head_chunk_rows).
    View logits;     // [S, V] compute
    View row_stats;  // [4, S] fp32: see Head::Rows (head.cpp)
};

// Indexes of step_sums.
//
// Why these sums are fp64. The loss of a step is a sum over 4 million tokens, the squared norm a
// sum over up to 10^11 elements. In fp32 the sum of n equal numbers stops growing at 2^24 of them,
// and an unlucky order loses digits that the log prints. Pairwise sums in fp32 would do for one
// rank, but then the printed loss and the clip coefficient would depend on the number of ranks and
// micro-batches in the 6th digit, and a comparison of layouts (the test of all parallel code) could
// not tell a wrong gradient from a rounding. With fp64 all layouts agree to 1e-6 of the loss, and
// the remaining difference is the products'.
//
// It costs nothing: there are three numbers, the partial sums of a kernel are fp32 within a row and
// fp64 between rows, and one message of 24 bytes carries them to all ranks. NaN and infinity
// survive every addition, so that the same sums detect a non-finite gradient anywhere without
// another pass (copies_sum_squares exists for this alone: tensor ranks hold equal copies of norms,
// and a copy that went bad on one rank must be seen although it does not count).
enum StepSum : int {
    loss_sum = 0,
    gradient_sum_squares = 1,  // sum over gradients that this rank counts in the norm
    copies_sum_squares = 2,    // sum over copies that tensor rank 0 counts; detects NaN
    step_sum_count = 3
};

// The configuration and memory that all modules of a chunk share.
struct ModuleSetup {
    spec::ModelConfig config;
    spec::TensorShare share;  // feed-forward columns and vocabulary rows of this tensor rank
    TensorParallel tensor;
    bool selective_recompute = false;
    i64 tensor_comm_sms = 0;  // SMs reserved for tensor-parallel collectives that overlap GEMMs
    u64 seed = 0;             // seed of dropout
    Scratch scratch;
};

// The properties of one layer.
struct LayerSetup {
    i64 number = 0;  // of the whole model: the key of the layer's dropout
    spec::LayerConfig config;
    spec::HeadShare heads;       // of this tensor rank
    i64 window = 0;              // index in spec::windows()
    i64 rotary = 0;              // index in spec::rotary_frequencies()
    bool joint_qk_norm = false;  // ModelConfig::joint_qk_norm
};

// Returns the first elements of `scratch` as [...] compute with the shape of `like`. Scratch has
// the size of the layer that needs most.
inline View part_like(const View& scratch, const View& like) {
    return scratch.flat().rows(0, like.numel()).reshape(like.shape);
}

// One micro-batch's forward or backward pass through a chunk.
struct Pass {
    device::Context& context;
    const ModuleSetup& setup;
    const MicroBatchInputs& inputs;
    bool training = true;    // with dropout
    bool accumulate = true;  // true: GEMMs add to weight gradients; false: they overwrite them

    // Returns the dropout with probability `p` at `site` of global layer `layer`, with the residual
    // multiplier of a branch.
    device::Dropout dropout(double p, i64 layer, device::DropoutSite site) const;
};

inline device::Dropout Pass::dropout(double p, i64 layer, device::DropoutSite site) const {
    // The key of a mask contains the row's place in its sample, so masks are the same in every
    // layout.
    const i64 residual_rows = setup.scratch.dresidual[0];
    const i64 all_rows = setup.scratch.branch[0];
    const bool branch = site == device::attention_output_site || site == device::mlp_output_site;
    return {.p = training ? p : 0.0,
            .scale = branch ? setup.config.residual_scale : 1.0,
            .seed = setup.seed,
            .layer = static_cast<i32>(layer),
            .site = site,
            .sample_ids = inputs.sample_ids,
            .first_row = setup.tensor.first_row(residual_rows),
            .sample_rows = all_rows / inputs.sample_ids[0]};
}

}  // namespace lm::model
