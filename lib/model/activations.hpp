// SPDX-License-Identifier: Apache-2.0
// The activations of a step as the model uses them: views into one buffer, laid out by the plan of
// spec/memory.hpp, whose names these are.
#pragma once

#include <vector>

#include "device/device.hpp"
#include "spec/memory.hpp"

namespace lm::model {

using device::View;

struct LayerActivations {
    View residual;  // the residual stream where the block begins
    View attention_norm, attention_norm_mean, attention_norm_rstd;
    View qkv, attention, attention_lse;
    View residual_mid;  // the residual stream between attention and MLP
    View mlp_norm, mlp_norm_mean, mlp_norm_rstd;
    View mlp_up, mlp_activation;
};

struct Activations {
    View tokens, targets, positions, doc_start, loss_weight, sample_ids;
    std::vector<LayerActivations> layers;
    View final_residual, final_norm, final_norm_mean, final_norm_rstd;
    View row_max, row_sum, target_logit, losses, dfinal;
    View step_sums;  // [step_sum_count] f64, read by the host once a step
    View branch, logits;
    View dresidual, dbranch, dnorm, dmlp, dattention, dqkv;
};

// Places in step_sums.
enum StepSum : int { loss_sum = 0, gradient_sum_squares = 1, step_sum_count = 2 };

Activations bind_activations(const spec::ActivationPlan& plan, const device::Buffer& buffer);

}  // namespace lm::model
