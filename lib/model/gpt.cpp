// SPDX-License-Identifier: Apache-2.0
#include "model/gpt.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace lm::model {

using device::Context;
using device::Dropout;
using device::DropoutSite;

namespace {

device::Activation activation_of(spec::Activation activation) {
    LM_CHECK(!spec::is_gated(activation), "a gated activation in the GPT-2 block");
    return activation == spec::Activation::gelu_erf ? device::Activation::gelu_erf
                                                    : device::Activation::gelu_tanh;
}

device::Norm norm_of(spec::Normalization norm) {
    return norm == spec::Normalization::rms_norm ? device::Norm::rms_norm
                                                 : device::Norm::layer_norm;
}

}  // namespace

Gpt::Gpt(const spec::ModelConfig& config, Params weights, Params gradients, Activations activations,
         u64 seed)
    : config_(config),
      weight_(std::move(weights)),
      grad_(std::move(gradients)),
      act_(std::move(activations)),
      seed_(seed) {}

Dropout Gpt::dropout(bool training, double p, i64 layer, DropoutSite site) const {
    return {.p = training ? p : 0.0,
            .seed = seed_,
            .layer = static_cast<i32>(layer),
            .site = site,
            .sample_ids = act_.sample_ids};
}

Dropout Gpt::dropout_before(bool training, i64 layer) const {
    return layer == 0
               ? dropout(training, config_.hidden_dropout, 0, device::embedding_site)
               : dropout(training, config_.hidden_dropout, layer - 1, device::mlp_output_site);
}

// ---- forward ----------------------------------------------------------------------------------

void Gpt::forward(Context& context, bool training) {
    device::embedding_forward(context, {.tokens = act_.tokens.flat(),
                                        .table = weight_.word,
                                        .positions = act_.positions.flat(),
                                        .position_table = weight_.position,
                                        .out = act_.branch});
    for (i64 layer = 0; layer < config_.n_layers; ++layer) {
        attention_forward(context, layer, training);
        mlp_forward(context, layer, training);
    }
    const LayerActivations& last = act_.layers.back();
    device::residual_norm_forward(context, {.norm = norm_of(config_.normalization),
                                            .eps = config_.norm_eps,
                                            .branch = act_.branch,
                                            .residual = last.residual_mid,
                                            .dropout = dropout_before(training, config_.n_layers),
                                            .sum = act_.final_residual,
                                            .weight = weight_.final_norm_weight,
                                            .bias = weight_.final_norm_bias,
                                            .y = act_.final_norm,
                                            .mean = act_.final_norm_mean,
                                            .rstd = act_.final_norm_rstd});
}

void Gpt::attention_forward(Context& context, i64 layer, bool training) {
    const auto index = static_cast<size_t>(layer);
    const LayerParams& w = weight_.layers[index];
    const LayerActivations& a = act_.layers[index];
    const View residual = layer == 0 ? View{} : act_.layers[index - 1].residual_mid;
    device::residual_norm_forward(context, {.norm = norm_of(config_.normalization),
                                            .eps = config_.norm_eps,
                                            .branch = act_.branch,
                                            .residual = residual,
                                            .dropout = dropout_before(training, layer),
                                            .sum = a.residual,
                                            .weight = w.attention_norm_weight,
                                            .bias = w.attention_norm_bias,
                                            .y = a.attention_norm,
                                            .mean = a.attention_norm_mean,
                                            .rstd = a.attention_norm_rstd});
    const i64 rows = a.residual[0];
    device::linear_forward(context, {.x = a.attention_norm,
                                     .w = w.qkv_weight,
                                     .bias = w.qkv_bias,
                                     .y = a.qkv.reshape({rows, a.qkv[2]})});
    device::attention_forward(
        context,
        {.qkv = a.qkv,
         .out = a.attention,
         .lse = a.attention_lse,
         .n_heads = config_.n_heads,
         .n_groups = config_.n_groups,
         .head_dim = config_.head_dim,
         .scale = 1.0 / std::sqrt(static_cast<double>(config_.head_dim)),
         .doc_start = act_.doc_start,
         .dropout = dropout(training, config_.attention_dropout, layer, device::attention_site)});
    device::linear_forward(context, {.x = a.attention.reshape({rows, a.attention[2]}),
                                     .w = w.output_weight,
                                     .bias = w.output_bias,
                                     .y = act_.branch});
}

void Gpt::mlp_forward(Context& context, i64 layer, bool training) {
    const auto index = static_cast<size_t>(layer);
    const LayerParams& w = weight_.layers[index];
    const LayerActivations& a = act_.layers[index];
    device::residual_norm_forward(
        context,
        {.norm = norm_of(config_.normalization),
         .eps = config_.norm_eps,
         .branch = act_.branch,
         .residual = a.residual,
         .dropout = dropout(training, config_.hidden_dropout, layer, device::attention_output_site),
         .sum = a.residual_mid,
         .weight = w.mlp_norm_weight,
         .bias = w.mlp_norm_bias,
         .y = a.mlp_norm,
         .mean = a.mlp_norm_mean,
         .rstd = a.mlp_norm_rstd});
    device::linear_forward(context, {.x = a.mlp_norm,
                                     .w = w.up_weight,
                                     .bias = w.up_bias,
                                     .y = a.mlp_activation,
                                     .activation = activation_of(config_.activation),
                                     .pre_activation = a.mlp_up});
    device::linear_forward(
        context,
        {.x = a.mlp_activation, .w = w.down_weight, .bias = w.down_bias, .y = act_.branch});
}

// ---- head and loss ----------------------------------------------------------------------------

void Gpt::loss(Context& context, bool training, double grad_scale, Gradients gradients) {
    const i64 n = act_.final_norm[0];
    const i64 chunk = act_.logits[0];
    const View targets = act_.targets.flat();
    const View weight = act_.loss_weight.flat();
    bool accumulate = gradients == Gradients::accumulate;
    for (i64 begin = 0; begin < n; begin += chunk) {
        const i64 end = std::min(begin + chunk, n);
        const auto rows = [begin, end](const View& view) { return view.rows(begin, end); };
        const View logits_rows = act_.logits.rows(0, end - begin);
        logits(context, begin, end, logits_rows);
        device::cross_entropy_stats(context, {.logits = logits_rows,
                                              .targets = rows(targets),
                                              .n_valid = config_.vocab_size,
                                              .row_max = rows(act_.row_max),
                                              .row_sum = rows(act_.row_sum),
                                              .target_logit = rows(act_.target_logit)});
        if (!training) continue;
        device::cross_entropy_backward(context, {.logits = logits_rows,
                                                 .targets = rows(targets),
                                                 .n_valid = config_.vocab_size,
                                                 .row_max = rows(act_.row_max),
                                                 .row_sum = rows(act_.row_sum),
                                                 .weight = rows(weight),
                                                 .grad_scale = grad_scale});
        device::linear_backward_input(
            context, {.dy = logits_rows, .w = weight_.word, .dx = rows(act_.dfinal)});
        device::linear_backward_weight(context, {.dy = logits_rows,
                                                 .x = rows(act_.final_norm),
                                                 .dw = grad_.word,
                                                 .accumulate = accumulate});
        accumulate = true;
    }
    device::cross_entropy_loss(context, {.row_max = act_.row_max,
                                         .row_sum = act_.row_sum,
                                         .target_logit = act_.target_logit,
                                         .losses = act_.losses.flat()});
    device::weighted_sum(context, {.x = act_.losses.flat(),
                                   .weight = weight,
                                   .out = act_.step_sums.rows(loss_sum, loss_sum + 1),
                                   .accumulate = true});
}

void Gpt::logits(Context& context, i64 begin, i64 end, const View& out) {
    device::linear_forward(context,
                           {.x = act_.final_norm.rows(begin, end), .w = weight_.word, .y = out});
}

// ---- backward ---------------------------------------------------------------------------------

void Gpt::backward(Context& context, Gradients gradients) {
    const bool accumulate = gradients == Gradients::accumulate;
    if (!accumulate) zero_accumulated(context);
    residual_norm_backward(context, {.dy = act_.dfinal,
                                     .sum = act_.final_residual,
                                     .weight = weight_.final_norm_weight,
                                     .mean = act_.final_norm_mean,
                                     .rstd = act_.final_norm_rstd,
                                     .dropout = dropout_before(true, config_.n_layers),
                                     .dweight = grad_.final_norm_weight,
                                     .dbias = grad_.final_norm_bias});
    for (i64 layer = config_.n_layers - 1; layer >= 0; --layer) {
        mlp_backward(context, layer, accumulate);
        attention_backward(context, layer, accumulate);
    }
    device::embedding_backward(context, {.tokens = act_.tokens.flat(),
                                         .dout = branch_gradient(config_.hidden_dropout),
                                         .dtable = grad_.word,
                                         .positions = act_.positions.flat(),
                                         .dposition_table = grad_.position});
}

// Completes what all residual joins share: the gradient of the stream is updated in place, the
// branch's gradient is the stream's own unless dropout lay between them.
void Gpt::residual_norm_backward(Context& context, device::ResidualNormBackward args) {
    args.norm = norm_of(config_.normalization);
    args.dsum = act_.dresidual;
    args.dbranch = args.dropout.on() ? act_.dbranch : View{};
    device::residual_norm_backward(context, args);
}

void Gpt::mlp_backward(Context& context, i64 layer, bool accumulate) {
    const auto index = static_cast<size_t>(layer);
    const LayerParams& w = weight_.layers[index];
    const LayerParams& g = grad_.layers[index];
    const LayerActivations& a = act_.layers[index];
    const View dbranch = branch_gradient(config_.hidden_dropout);
    device::linear_backward_weight(context, {.dy = dbranch,
                                             .x = a.mlp_activation,
                                             .dw = g.down_weight,
                                             .dbias = g.down_bias,
                                             .accumulate = accumulate});
    device::linear_backward_input(context, {.dy = dbranch,
                                            .w = w.down_weight,
                                            .dx = act_.dmlp,
                                            .activation = activation_of(config_.activation),
                                            .pre_activation = a.mlp_up});
    device::linear_backward_weight(context, {.dy = act_.dmlp,
                                             .x = a.mlp_norm,
                                             .dw = g.up_weight,
                                             .dbias = g.up_bias,
                                             .accumulate = accumulate});
    device::linear_backward_input(context, {.dy = act_.dmlp, .w = w.up_weight, .dx = act_.dnorm});
    residual_norm_backward(context, {.dy = act_.dnorm,
                                     .sum = a.residual_mid,
                                     .weight = w.mlp_norm_weight,
                                     .mean = a.mlp_norm_mean,
                                     .rstd = a.mlp_norm_rstd,
                                     .dsum_in = act_.dresidual,
                                     .dropout = dropout(true, config_.hidden_dropout, layer,
                                                        device::attention_output_site),
                                     .dweight = g.mlp_norm_weight,
                                     .dbias = g.mlp_norm_bias});
}

void Gpt::attention_backward(Context& context, i64 layer, bool accumulate) {
    const auto index = static_cast<size_t>(layer);
    const LayerParams& w = weight_.layers[index];
    const LayerParams& g = grad_.layers[index];
    const LayerActivations& a = act_.layers[index];
    const i64 rows = a.residual[0];
    const View dbranch = branch_gradient(config_.hidden_dropout);
    device::linear_backward_weight(context, {.dy = dbranch,
                                             .x = a.attention.reshape({rows, a.attention[2]}),
                                             .dw = g.output_weight,
                                             .dbias = g.output_bias,
                                             .accumulate = accumulate});
    device::linear_backward_input(context, {.dy = dbranch,
                                            .w = w.output_weight,
                                            .dx = act_.dattention.reshape({rows, a.attention[2]})});
    device::attention_backward(
        context,
        {.dout = act_.dattention,
         .qkv = a.qkv,
         .out = a.attention,
         .lse = a.attention_lse,
         .dqkv = act_.dqkv,
         .n_heads = config_.n_heads,
         .n_groups = config_.n_groups,
         .head_dim = config_.head_dim,
         .scale = 1.0 / std::sqrt(static_cast<double>(config_.head_dim)),
         .doc_start = act_.doc_start,
         .dropout = dropout(true, config_.attention_dropout, layer, device::attention_site)});
    const View dqkv = act_.dqkv.reshape({rows, act_.dqkv[2]});
    device::linear_backward_weight(context, {.dy = dqkv,
                                             .x = a.attention_norm,
                                             .dw = g.qkv_weight,
                                             .dbias = g.qkv_bias,
                                             .accumulate = accumulate});
    device::linear_backward_input(context, {.dy = dqkv, .w = w.qkv_weight, .dx = act_.dnorm});
    residual_norm_backward(context, {.dy = act_.dnorm,
                                     .sum = a.residual,
                                     .weight = w.attention_norm_weight,
                                     .mean = a.attention_norm_mean,
                                     .rstd = a.attention_norm_rstd,
                                     .dsum_in = act_.dresidual,
                                     .dropout = dropout_before(true, layer),
                                     .dweight = g.attention_norm_weight,
                                     .dbias = g.attention_norm_bias});
}

// Gradients that operations only ever add to start a step at zero; the others are overwritten.
void Gpt::zero_accumulated(Context& context) {
    const auto zero = [&context](const View& view) {
        if (view) device::fill(context, {.x = view, .value = 0});
    };
    zero(grad_.position);
    for (const LayerParams& g : grad_.layers) {
        zero(g.attention_norm_weight);
        zero(g.attention_norm_bias);
        zero(g.mlp_norm_weight);
        zero(g.mlp_norm_bias);
    }
    zero(grad_.final_norm_weight);
    zero(grad_.final_norm_bias);
}

}  // namespace lm::model
