// SPDX-License-Identifier: Apache-2.0
// The activations of a model chunk as the model uses them: views into one buffer, laid out by the
// plan of cost/activation_plan.hpp, whose names these are. Letters: R rows of the residual stream
// (all N = B*T of a micro-batch; this rank's part of them under sequence parallelism).
#pragma once

#include <vector>

#include "cost/memory.hpp"
#include "device/device.hpp"

namespace lm::model {

using device::View;

struct LayerActivations {
    View residual;  // [R, C] the residual stream where the block begins
    View attention_norm, attention_norm_mean, attention_norm_rstd;
    View qkv, attention, attention_lse;
    View residual_mid;  // the residual stream between attention and MLP
    View mlp_norm, mlp_norm_mean, mlp_norm_rstd;
    View mlp_up, mlp_activation;
};

// Of one micro-batch in flight. What the chunk's part of the model does not use is none.
struct MicroBatchActivations {
    View tokens, positions;     // [B, T] i32; embedding, and positions wherever heads are rotated
    View targets, loss_weight;  // [B, T] i32, f32; head
    View doc_start;             // [B, T] i32
    View sample_ids;            // [B] i64
    // [R, C] the words before they are normalized; models with an embedding norm
    View embedding, embedding_norm_mean, embedding_norm_rstd;
    std::vector<LayerActivations> layers;
    View final_residual;  // [R, C] the residual stream behind the last block
    View final_norm, final_norm_mean, final_norm_rstd;
    View losses, dfinal;
};

// Shared by the micro-batches and chunks of a rank.
struct SharedActivations {
    View step_sums;  // [step_sum_count] f64, read by the host once a step
    View branch, gathered, logits, row_stats;
    View dresidual, dbranch, dnorm, dmlp, dattention, dqkv;
    View dgated;                       // [N, F] gradient of a gated activation's output
    View rotary_angles, alibi_slopes;  // constants: model/positions.hpp
};

struct ChunkActivations {
    std::vector<MicroBatchActivations> slots;
    SharedActivations shared;
};

// Places in step_sums.
enum StepSum : int { loss_sum = 0, gradient_sum_squares = 1, step_sum_count = 2 };

// One for each chunk of the stage that `plan` was made for.
std::vector<ChunkActivations> bind_activations(const cost::ActivationPlan& plan,
                                               const device::Buffer& buffer);

}  // namespace lm::model
