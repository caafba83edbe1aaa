// SPDX-License-Identifier: Apache-2.0
#include "model/attention.hpp"

#include <cmath>

namespace lm::model {
namespace {

// Returns `view`, [B, T, width] compute, as [N, width], N = B * T.
View as_rows(const View& view) {
    return view.reshape({view[0] * view[1], view[2]});
}

// Returns 1 / sqrt(D), the factor of the scores (Vaswani et al. 2017, "Attention is all you need",
// section 3.2.1).
double scale_of(const Pass& pass) {
    return 1.0 / std::sqrt(static_cast<double>(pass.setup.config.head_dim));
}

}  // namespace

View Attention::forward(const Pass& pass, const View& x, const AttentionActivations& act) const {
    const View& projected = act.projected ? act.projected : act.qkv;
    column_linear_forward(
        pass, {.x = x, .w = weight_.qkv_weight, .bias = weight_.qkv_bias, .y = as_rows(projected)});
    normalize(pass, act);
    // Rotates in place, because backward needs only the rotated queries and keys.
    rotate(pass, act.qkv, false);
    device::attention_forward(pass.context, {.qkv = act.qkv,
                                             .out = act.out,
                                             .lse = act.lse,
                                             .n_heads = pass.setup.share.n_heads,
                                             .n_groups = pass.setup.share.n_groups,
                                             .head_dim = pass.setup.config.head_dim,
                                             .scale = scale_of(pass),
                                             .doc_start = pass.inputs.doc_start,
                                             .alibi_slopes = pass.setup.scratch.alibi_slopes,
                                             .dropout = dropout(pass)});
    return row_linear_forward(
        pass, {.x = as_rows(act.out), .w = weight_.output_weight, .bias = weight_.output_bias});
}

View Attention::backward(const Pass& pass, const View& dbranch, const View& x,
                         const AttentionActivations& act) const {
    const Scratch& scratch = pass.setup.scratch;
    row_linear_backward(pass,
                        {.dy = dbranch,
                         .x = as_rows(act.out),
                         .dw = grad_.output_weight,
                         .dbias = grad_.output_bias,
                         .input = {.w = weight_.output_weight, .dx = as_rows(scratch.dattention)}});
    device::attention_backward(pass.context, {.dout = scratch.dattention,
                                              .qkv = act.qkv,
                                              .out = act.out,
                                              .lse = act.lse,
                                              .dqkv = scratch.dqkv,
                                              .n_heads = pass.setup.share.n_heads,
                                              .n_groups = pass.setup.share.n_groups,
                                              .head_dim = pass.setup.config.head_dim,
                                              .scale = scale_of(pass),
                                              .doc_start = pass.inputs.doc_start,
                                              .alibi_slopes = scratch.alibi_slopes,
                                              .dropout = dropout(pass)});
    rotate(pass, scratch.dqkv, true);
    normalize_backward(pass, scratch.dqkv, act);
    return column_linear_backward(pass, {.dy = as_rows(scratch.dqkv),
                                         .x = x,
                                         .w = weight_.qkv_weight,
                                         .dw = grad_.qkv_weight,
                                         .dbias = grad_.qkv_bias});
}

void Attention::normalize(const Pass& pass, const AttentionActivations& act) const {
    if (!act.projected) return;
    const spec::ModelConfig& config = pass.setup.config;
    device::head_norm_forward(pass.context, {.norm = config.normalization,
                                             .eps = config.norm_eps,
                                             .x = act.projected,
                                             .query_weight = weight_.query_norm.weight,
                                             .query_bias = weight_.query_norm.bias,
                                             .key_weight = weight_.key_norm.weight,
                                             .key_bias = weight_.key_norm.bias,
                                             .y = act.qkv,
                                             .n_heads = pass.setup.share.n_heads,
                                             .n_groups = pass.setup.share.n_groups,
                                             .one_plus = config.norm_1p});
}

void Attention::normalize_backward(const Pass& pass, const View& dqkv,
                                   const AttentionActivations& act) const {
    if (!act.projected) return;
    const spec::ModelConfig& config = pass.setup.config;
    device::head_norm_backward(pass.context, {.norm = config.normalization,
                                              .eps = config.norm_eps,
                                              .dy = dqkv,
                                              .x = act.projected,
                                              .query_weight = weight_.query_norm.weight,
                                              .key_weight = weight_.key_norm.weight,
                                              .dx = dqkv,
                                              .dquery_weight = grad_.query_norm.weight,
                                              .dquery_bias = grad_.query_norm.bias,
                                              .dkey_weight = grad_.key_norm.weight,
                                              .dkey_bias = grad_.key_norm.bias,
                                              .n_heads = pass.setup.share.n_heads,
                                              .n_groups = pass.setup.share.n_groups,
                                              .one_plus = config.norm_1p,
                                              .accumulate = pass.accumulate});
}

void Attention::sum_gradients(const TensorParallel& tensor) const {
    if (!tensor.several()) return;
    for (const NormParams& norm : {grad_.query_norm, grad_.key_norm}) {
        if (norm.weight) tensor.all_sum(norm.weight);
        if (norm.bias) tensor.all_sum(norm.bias);
    }
}

// The gradients of weight and bias of both norms have the same size and type, so one warm-up is
// enough.
void Attention::warm_up(comm::Group& group) const {
    if (grad_.query_norm.weight) {
        group.warm_up_all_reduce(grad_.query_norm.weight, comm::Reduction::sum);
    }
}

void Attention::rotate(const Pass& pass, const View& qkv, bool inverse) const {
    if (pass.setup.config.position != spec::PositionEmbedding::rope) return;
    device::rotary(pass.context, {.x = qkv,
                                  .positions = pass.inputs.positions,
                                  .angles = pass.setup.scratch.rotary_angles,
                                  .n_heads = pass.setup.share.n_heads + pass.setup.share.n_groups,
                                  .head_dim = pass.setup.config.head_dim,
                                  .inverse = inverse,
                                  .interleaved = pass.setup.config.rotary_interleaved});
}

// Returns the dropout of the attention probabilities.
device::Dropout Attention::dropout(const Pass& pass) const {
    return pass.dropout(pass.setup.config.attention_dropout, layer_, device::attention_site);
}

}  // namespace lm::model
