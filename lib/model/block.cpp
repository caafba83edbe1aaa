// SPDX-License-Identifier: Apache-2.0
// A transformer block: attention and MLP, forward and backward; and what recompute makes again.
// Projections to heads and to the MLP's width are column-parallel, those back to the residual
// stream row-parallel (Shoeybi et al., 2019, section 3).
#include <cmath>

#include "model/chunk.hpp"
#include "model/norm.hpp"

namespace lm::model {
namespace {

// [B, T, width] as [N, width].
View as_rows(const View& view) {
    return view.reshape({view[0] * view[1], view[2]});
}

}  // namespace

// ---- attention --------------------------------------------------------------------------------

// Of the stream as `residual` holds it.
device::ResidualNormForward GptChunk::attention_norm(const Pass& pass, i64 layer) const {
    const auto index = static_cast<size_t>(layer);
    const LayerParams& w = weight_.layers[index];
    const LayerActivations& a = pass.act.layers[index];
    return {.norm = norm_of(config_.normalization),
            .eps = config_.norm_eps,
            .residual = a.residual,
            .weight = w.attention_norm_weight,
            .bias = w.attention_norm_bias,
            .y = a.attention_norm,
            .mean = a.attention_norm_mean,
            .rstd = a.attention_norm_rstd};
}

// `join`: the branch before this block joins the stream here; otherwise the stream lies in
// `residual` already: a stage's input, or what recompute has kept.
void GptChunk::attention_forward(const Pass& pass, i64 layer, bool join) {
    const auto index = static_cast<size_t>(layer);
    const LayerParams& w = weight_.layers[index];
    const LayerActivations& a = pass.act.layers[index];
    device::ResidualNormForward norm = attention_norm(pass, layer);
    if (join) {
        norm.branch = tensor_.own_rows(shared_.branch);
        norm.residual = layer == 0 ? View{} : pass.act.layers[index - 1].residual_mid;
        norm.dropout = dropout_before(pass, layer);
        norm.sum = a.residual;
    }
    device::residual_norm_forward(pass.context, norm);
    device::linear_forward(pass.context, {.x = tensor_.gather(a.attention_norm, shared_.gathered),
                                          .w = w.qkv_weight,
                                          .bias = w.qkv_bias,
                                          .y = as_rows(a.qkv)});
    rotate(pass, a.qkv, false);
    device::attention_forward(
        pass.context,
        {.qkv = a.qkv,
         .out = a.attention,
         .lse = a.attention_lse,
         .n_heads = share_.n_heads,
         .n_groups = share_.n_groups,
         .head_dim = config_.head_dim,
         .scale = 1.0 / std::sqrt(static_cast<double>(config_.head_dim)),
         .doc_start = pass.act.doc_start,
         .alibi_slopes = shared_.alibi_slopes,
         .dropout = dropout(pass, config_.attention_dropout, layer, device::attention_site)});
    device::linear_forward(pass.context, {.x = as_rows(a.attention),
                                          .w = w.output_weight,
                                          .bias = bias_once(w.output_bias),
                                          .y = shared_.branch});
    tensor_.sum(shared_.branch);
}

// Queries and keys, or their gradients back.
void GptChunk::rotate(const Pass& pass, const View& qkv, bool inverse) {
    if (config_.position != spec::PositionEmbedding::rope) return;
    device::rotary(pass.context, {.x = qkv,
                                  .positions = pass.act.positions,
                                  .angles = shared_.rotary_angles,
                                  .n_heads = share_.n_heads + share_.n_groups,
                                  .head_dim = config_.head_dim,
                                  .inverse = inverse});
}

void GptChunk::attention_backward(const Pass& pass, i64 layer) {
    const auto index = static_cast<size_t>(layer);
    const LayerParams& w = weight_.layers[index];
    const LayerParams& g = grad_.layers[index];
    const LayerActivations& a = pass.act.layers[index];
    const View dbranch = tensor_.gather(branch_gradient(), shared_.gathered);
    device::linear_backward_weight(pass.context, {.dy = dbranch,
                                                  .x = as_rows(a.attention),
                                                  .dw = g.output_weight,
                                                  .dbias = g.output_bias,
                                                  .accumulate = pass.accumulate});
    device::linear_backward_input(
        pass.context, {.dy = dbranch, .w = w.output_weight, .dx = as_rows(shared_.dattention)});
    device::attention_backward(
        pass.context,
        {.dout = shared_.dattention,
         .qkv = a.qkv,
         .out = a.attention,
         .lse = a.attention_lse,
         .dqkv = shared_.dqkv,
         .n_heads = share_.n_heads,
         .n_groups = share_.n_groups,
         .head_dim = config_.head_dim,
         .scale = 1.0 / std::sqrt(static_cast<double>(config_.head_dim)),
         .doc_start = pass.act.doc_start,
         .alibi_slopes = shared_.alibi_slopes,
         .dropout = dropout(pass, config_.attention_dropout, layer, device::attention_site)});
    rotate(pass, shared_.dqkv, true);
    if (recompute_.granularity == spec::Recompute::Granularity::selective) {
        device::residual_norm_forward(pass.context, attention_norm(pass, layer));
    }
    const View dnorm = column_backward(pass, {.dy = as_rows(shared_.dqkv),
                                              .norm = a.attention_norm,
                                              .w = w.qkv_weight,
                                              .dw = g.qkv_weight,
                                              .dbias = g.qkv_bias});
    const bool stage_input = layer == 0 && !part_.embedding;
    residual_norm_backward(
        pass, {.dy = dnorm,
               .sum = a.residual,
               .weight = w.attention_norm_weight,
               .mean = a.attention_norm_mean,
               .rstd = a.attention_norm_rstd,
               .dsum_in = shared_.dresidual,
               .dsum = stage_input ? a.residual : shared_.dresidual,
               .dropout = stage_input ? device::Dropout{} : dropout_before(pass, layer),
               .dweight = g.attention_norm_weight,
               .dbias = g.attention_norm_bias});
}

// ---- MLP --------------------------------------------------------------------------------------

// Of the stream as `residual_mid` holds it.
device::ResidualNormForward GptChunk::mlp_norm(const Pass& pass, i64 layer) const {
    const auto index = static_cast<size_t>(layer);
    const LayerParams& w = weight_.layers[index];
    const LayerActivations& a = pass.act.layers[index];
    return {.norm = norm_of(config_.normalization),
            .eps = config_.norm_eps,
            .residual = a.residual_mid,
            .weight = w.mlp_norm_weight,
            .bias = w.mlp_norm_bias,
            .y = a.mlp_norm,
            .mean = a.mlp_norm_mean,
            .rstd = a.mlp_norm_rstd};
}

void GptChunk::mlp_forward(const Pass& pass, i64 layer) {
    const auto index = static_cast<size_t>(layer);
    const LayerParams& w = weight_.layers[index];
    const LayerActivations& a = pass.act.layers[index];
    device::ResidualNormForward norm = mlp_norm(pass, layer);
    norm.branch = tensor_.own_rows(shared_.branch);
    norm.residual = a.residual;
    norm.dropout = dropout(pass, config_.hidden_dropout, layer, device::attention_output_site);
    norm.sum = a.residual_mid;
    device::residual_norm_forward(pass.context, norm);
    device::LinearForward up{.x = tensor_.gather(a.mlp_norm, shared_.gathered),
                             .w = w.up_weight,
                             .bias = w.up_bias,
                             .y = a.mlp_up};
    if (spec::is_gated(config_.activation)) {
        device::linear_forward(pass.context, up);
        return activate(pass, a);
    }
    up.y = a.mlp_activation;
    up.activation = config_.activation;
    up.pre_activation = a.mlp_up;
    up.recomputed = recompute_.granularity == spec::Recompute::Granularity::selective;
    device::linear_forward(pass.context, up);
}

// From mlp_up to mlp_activation.
void GptChunk::activate(const Pass& pass, const LayerActivations& a) {
    if (spec::is_gated(config_.activation)) {
        device::gated_forward(pass.context,
                              {.gate = config_.activation, .x = a.mlp_up, .y = a.mlp_activation});
    } else {
        device::activation_forward(
            pass.context, {.x = a.mlp_up, .y = a.mlp_activation, .activation = config_.activation});
    }
}

// Apart from the rest, because recompute needs it for the layers after this one only.
void GptChunk::mlp_branch_forward(const Pass& pass, i64 layer) {
    const auto index = static_cast<size_t>(layer);
    const LayerParams& w = weight_.layers[index];
    device::linear_forward(pass.context, {.x = pass.act.layers[index].mlp_activation,
                                          .w = w.down_weight,
                                          .bias = bias_once(w.down_bias),
                                          .y = shared_.branch});
    tensor_.sum(shared_.branch);
}

void GptChunk::mlp_backward(const Pass& pass, i64 layer) {
    const auto index = static_cast<size_t>(layer);
    const LayerParams& w = weight_.layers[index];
    const LayerParams& g = grad_.layers[index];
    const LayerActivations& a = pass.act.layers[index];
    if (recompute_.granularity == spec::Recompute::Granularity::selective) {
        device::residual_norm_forward(pass.context, mlp_norm(pass, layer));
        activate(pass, a);
    }
    const View dbranch = tensor_.gather(branch_gradient(), shared_.gathered);
    device::linear_backward_weight(pass.context, {.dy = dbranch,
                                                  .x = a.mlp_activation,
                                                  .dw = g.down_weight,
                                                  .dbias = g.down_bias,
                                                  .accumulate = pass.accumulate});
    device::LinearBackwardInput down{.dy = dbranch, .w = w.down_weight, .dx = shared_.dmlp};
    if (spec::is_gated(config_.activation)) {
        down.dx = shared_.dgated;
        device::linear_backward_input(pass.context, down);
        device::gated_backward(
            pass.context,
            {.gate = config_.activation, .dy = shared_.dgated, .x = a.mlp_up, .dx = shared_.dmlp});
    } else {
        down.activation = config_.activation;
        down.pre_activation = a.mlp_up;
        device::linear_backward_input(pass.context, down);
    }
    const View dnorm = column_backward(pass, {.dy = shared_.dmlp,
                                              .norm = a.mlp_norm,
                                              .w = w.up_weight,
                                              .dw = g.up_weight,
                                              .dbias = g.up_bias});
    residual_norm_backward(pass, {.dy = dnorm,
                                  .sum = a.residual_mid,
                                  .weight = w.mlp_norm_weight,
                                  .mean = a.mlp_norm_mean,
                                  .rstd = a.mlp_norm_rstd,
                                  .dsum_in = shared_.dresidual,
                                  .dropout = dropout(pass, config_.hidden_dropout, layer,
                                                     device::attention_output_site),
                                  .dweight = g.mlp_norm_weight,
                                  .dbias = g.mlp_norm_bias});
}

// What travels does so behind a product.
View GptChunk::column_backward(const Pass& pass, const Column& product) {
    auto norm = tensor_.start_gather(product.norm, shared_.gathered);
    device::linear_backward_input(pass.context,
                                  {.dy = product.dy, .w = product.w, .dx = shared_.dnorm});
    norm.work.wait();
    auto dnorm = tensor_.start_sum(shared_.dnorm);
    device::linear_backward_weight(pass.context, {.dy = product.dy,
                                                  .x = norm.x,
                                                  .dw = product.dw,
                                                  .dbias = product.dbias,
                                                  .accumulate = pass.accumulate});
    dnorm.work.wait();
    return dnorm.x;
}

// ---- recompute ---------------------------------------------------------------------------------

// The forward pass of some layers from the kept stream, up to what backward reads last.
void GptChunk::group_again(const Pass& pass, const cost::LayerGroup& group) {
    for (i64 layer = group.begin; layer < group.end; ++layer) {
        attention_forward(pass, layer, layer > group.begin);
        mlp_forward(pass, layer);
        if (layer + 1 < group.end) mlp_branch_forward(pass, layer);
    }
}

}  // namespace lm::model
