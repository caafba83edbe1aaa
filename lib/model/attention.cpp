// SPDX-License-Identifier: Apache-2.0
#include "model/attention.hpp"

namespace lm::model {
namespace {

// Returns `view`, [B, T, width] compute, as [N, width], N = B * T.
View as_rows(const View& view) {
    return view.reshape({view[0] * view[1], view[2]});
}

}  // namespace

View Attention::forward(const Pass& pass, const View& x, const AttentionActivations& act,
                        const View& y) const {
    const View& projected = act.projected ? act.projected : act.qkv;
    column_linear_forward(
        pass, {.x = x, .w = weight_.qkv_weight, .bias = weight_.qkv_bias, .y = as_rows(projected)});
    normalize(pass, act);
    // Rotates in place, because backward needs only the rotated queries and keys.
    rotate(pass, act.qkv, false);
    device::attention_forward(pass.context, {.qkv = act.qkv,
                                             .out = act.out,
                                             .lse = act.lse,
                                             .n_heads = layer_.heads.n_heads,
                                             .n_groups = layer_.heads.n_groups,
                                             .head_dim = pass.setup.config.head_dim,
                                             .scale = pass.setup.config.score_scale(),
                                             .doc_start = first_keys(pass, act.qkv),
                                             .alibi_slopes = slopes(pass),
                                             .dropout = dropout(pass)});
    return row_linear_forward(
        pass, {.x = as_rows(act.out), .w = weight_.output_weight, .bias = weight_.output_bias}, y);
}

View Attention::backward(const Pass& pass, const View& dbranch, const View& x,
                         const AttentionActivations& act) const {
    const View dout = part_like(pass.setup.scratch.dattention, act.out);
    const View dqkv = part_like(pass.setup.scratch.dqkv, act.qkv);
    row_linear_backward(pass, {.dy = dbranch,
                               .x = as_rows(act.out),
                               .dw = grad_.output_weight,
                               .dbias = grad_.output_bias,
                               .input = {.w = weight_.output_weight, .dx = as_rows(dout)}});
    device::attention_backward(pass.context, {.dout = dout,
                                              .qkv = act.qkv,
                                              .out = act.out,
                                              .lse = act.lse,
                                              .dqkv = dqkv,
                                              .n_heads = layer_.heads.n_heads,
                                              .n_groups = layer_.heads.n_groups,
                                              .head_dim = pass.setup.config.head_dim,
                                              .scale = pass.setup.config.score_scale(),
                                              .doc_start = first_keys(pass, act.qkv),
                                              .alibi_slopes = slopes(pass),
                                              .dropout = dropout(pass)});
    rotate(pass, dqkv, true);
    normalize_backward(pass, dqkv, act);
    return column_linear_backward(pass, {.dy = as_rows(dqkv),
                                         .x = x,
                                         .w = weight_.qkv_weight,
                                         .dw = grad_.qkv_weight,
                                         .dbias = grad_.qkv_bias});
}

void Attention::joint_sums(const Pass& pass, device::JointNormSums args, const View& sums) const {
    args.query = weight_.query_norm.weight[0];
    args.key = weight_.key_norm.weight[0];
    args.sums = sums;
    device::joint_norm_sums(pass.context, args);
    pass.setup.tensor.all_sum(sums);
}

void Attention::normalize(const Pass& pass, const AttentionActivations& act) const {
    if (!act.projected) return;
    const spec::ModelConfig& config = pass.setup.config;
    if (config.joint_qk_norm) {
        joint_sums(pass, {.a = act.projected, .b = act.projected}, act.squares);
        return device::joint_norm_forward(pass.context, {.eps = config.norm_eps,
                                                         .x = act.projected,
                                                         .query_weight = weight_.query_norm.weight,
                                                         .key_weight = weight_.key_norm.weight,
                                                         .squares = act.squares,
                                                         .y = act.qkv,
                                                         .share = share_of_heads(pass),
                                                         .one_plus = config.norm_1p});
    }
    device::head_norm_forward(pass.context, {.norm = config.normalization,
                                             .eps = config.norm_eps,
                                             .x = act.projected,
                                             .query_weight = weight_.query_norm.weight,
                                             .query_bias = weight_.query_norm.bias,
                                             .key_weight = weight_.key_norm.weight,
                                             .key_bias = weight_.key_norm.bias,
                                             .y = act.qkv,
                                             .n_heads = layer_.heads.n_heads,
                                             .n_groups = layer_.heads.n_groups,
                                             .one_plus = config.norm_1p});
}

void Attention::normalize_backward(const Pass& pass, const View& dqkv,
                                   const AttentionActivations& act) const {
    if (!act.projected) return;
    const spec::ModelConfig& config = pass.setup.config;
    if (config.joint_qk_norm) {
        const View products = part_like(pass.setup.scratch.dsquares, act.squares);
        joint_sums(pass,
                   {.a = dqkv,
                    .b = act.projected,
                    .query_weight = weight_.query_norm.weight,
                    .key_weight = weight_.key_norm.weight,
                    .one_plus = config.norm_1p},
                   products);
        return device::joint_norm_backward(pass.context, {.eps = config.norm_eps,
                                                          .dy = dqkv,
                                                          .x = act.projected,
                                                          .query_weight = weight_.query_norm.weight,
                                                          .key_weight = weight_.key_norm.weight,
                                                          .squares = act.squares,
                                                          .products = products,
                                                          .dx = dqkv,
                                                          .dquery_weight = grad_.query_norm.weight,
                                                          .dkey_weight = grad_.key_norm.weight,
                                                          .share = share_of_heads(pass),
                                                          .one_plus = config.norm_1p,
                                                          .accumulate = pass.accumulate});
    }
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
                                              .n_heads = layer_.heads.n_heads,
                                              .n_groups = layer_.heads.n_groups,
                                              .one_plus = config.norm_1p,
                                              .accumulate = pass.accumulate});
}

double Attention::share_of_heads(const Pass& pass) const {
    return static_cast<double>(layer_.heads.n_heads) /
           static_cast<double>(pass.setup.config.n_heads);
}

void Attention::sum_gradients(const TensorParallel& tensor) const {
    if (!tensor.several() || layer_.joint_qk_norm) return;
    for (const NormParams& norm : {grad_.query_norm, grad_.key_norm}) {
        if (norm.weight) tensor.all_sum(norm.weight);
        if (norm.bias) tensor.all_sum(norm.bias);
    }
}

// The gradients of weight and bias of both norms have the same size and type, so one warm-up is
// enough.
void Attention::warm_up(comm::Group& group) const {
    if (grad_.query_norm.weight && !layer_.joint_qk_norm) {
        group.warm_up_all_reduce(grad_.query_norm.weight, comm::Reduction::sum);
    }
}

void Attention::rotate(const Pass& pass, const View& qkv, bool inverse) const {
    if (!is_rotary(layer_.config.position)) return;
    const View& positions = pass.inputs.positions;
    const i64 t = positions[1];
    const Scratch& scratch = pass.setup.scratch;
    const auto turn = [&](const View& angles, i64 n_heads) {
        device::rotary(pass.context, {.x = qkv,
                                      .positions = positions,
                                      .angles = angles,
                                      .n_heads = n_heads,
                                      .head_dim = pass.setup.config.head_dim,
                                      .inverse = inverse,
                                      .interleaved = pass.setup.config.rotary_interleaved});
    };
    turn(scratch.rotary_angles.rows(layer_.rotary * t, (layer_.rotary + 1) * t),
         layer_.heads.n_heads + layer_.heads.n_groups);
    // The factor of a query commutes with its rotation, so forward and backward have this order.
    if (layer_.config.rotary.query_beta > 0) turn(scratch.query_scales, layer_.heads.n_heads);
}

View Attention::first_keys(const Pass& pass, const View& qkv) const {
    const View& all = pass.inputs.doc_start;
    return all ? all.rows(layer_.window * qkv[0], (layer_.window + 1) * qkv[0]) : View{};
}

View Attention::slopes(const Pass& pass) const {
    switch (layer_.config.position) {
        case spec::PositionEmbedding::alibi:
            return pass.setup.scratch.alibi_slopes.rows(
                layer_.heads.first_head, layer_.heads.first_head + layer_.heads.n_heads);
        case spec::PositionEmbedding::absolute:
        case spec::PositionEmbedding::rope:
        case spec::PositionEmbedding::none:
            return {};
    }
    __builtin_unreachable();
}

// Returns the dropout of the attention probabilities.
device::Dropout Attention::dropout(const Pass& pass) const {
    device::Dropout dropout =
        pass.dropout(pass.setup.config.attention_dropout, layer_.number, device::attention_site);
    dropout.first_head = layer_.heads.first_head;
    return dropout;
}

}  // namespace lm::model
