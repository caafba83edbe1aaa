// SPDX-License-Identifier: Apache-2.0
#include "model/attention.hpp"

#include <cmath>

#include "model/parallel_linear.hpp"

namespace lm::model {
namespace {

// Returns `view`, [B, T, width] compute, as [N, width], N = B * T.
View as_rows(const View& view) {
    return view.reshape({view[0] * view[1], view[2]});
}

// Returns 1 / sqrt(D), which scores are multiplied by (Vaswani et al. 2017, "Attention is all you
// need", section 3.2.1).
double scale_of(const Pass& pass) {
    return 1.0 / std::sqrt(static_cast<double>(pass.setup.config.head_dim));
}

}  // namespace

View Attention::forward(const Pass& pass, const View& x, const AttentionActivations& act) const {
    column_linear_forward(
        pass, {.x = x, .w = weight_.qkv_weight, .bias = weight_.qkv_bias, .y = as_rows(act.qkv)});
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
    return column_linear_backward(pass, {.dy = as_rows(scratch.dqkv),
                                         .x = x,
                                         .w = weight_.qkv_weight,
                                         .dw = grad_.qkv_weight,
                                         .dbias = grad_.qkv_bias});
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
