// SPDX-License-Identifier: Apache-2.0
// Self-attention of one layer: projection to queries, keys and values; norms of queries and keys
// (--qk-layernorm); rotary embedding; attention of each head; projection back to the residual
// stream. The heads are split over the tensor ranks.
// Shapes: model/pass.hpp.
#pragma once

#include "model/parallel_linear.hpp"
#include "model/residual_norm.hpp"

namespace lm::model {

struct AttentionParams {
    View qkv_weight;     // [(H+2G)*D, C] compute; gradient fp32
    View qkv_bias;       // [(H+2G)*D] compute, or none; gradient fp32
    View output_weight;  // [C, H*D] compute; gradient fp32
    View output_bias;    // [C] compute, or none; gradient fp32
    // [D] compute, or with ModelConfig::joint_qk_norm [H*D] and [G*D], or none.
    NormParams query_norm;
    NormParams key_norm;
};

struct AttentionActivations {
    View projected;  // [B, T, (H+2G)*D] compute: input of the norms of query and key, or none
    View squares;    // [2, N] fp32: sums of squares of query and key, or none
    View qkv;        // [B, T, (H+2G)*D] compute: H queries, G keys (with RoPE: rotated), G values
    View out;        // [B, T, H*D] compute: the heads' outputs
    View lse;        // [B, H, T] fp32: log of the softmax denominator
};

class Attention {
  public:
    Attention(const AttentionParams& weights, const AttentionParams& gradients,
              const LayerSetup& layer)
        : weight_(weights), grad_(gradients), layer_(layer) {}

    // Computes the branch, [R, C] compute, and returns it: `y`, or without it a view of
    // scratch.branch. x: [R, C] compute.
    View forward(const Pass& pass, const View& x, const AttentionActivations& act,
                 const View& y) const;
    // Computes the gradients of the parameters, but not the gradient of the output bias if
    // output_bias_gradient() returns a view. Returns the gradient of x, [R, C] compute, in
    // scratch.dnorm. dbranch: [R, C] compute; x: [R, C] compute, as in forward().
    View backward(const Pass& pass, const View& dbranch, const View& x,
                  const AttentionActivations& act) const;

    // Sums the gradients of the norms, which each tensor rank computed for its own heads.
    // Collective over the tensor group.
    void sum_gradients(const TensorParallel& tensor) const;
    // Warms up the tensor group for sum_gradients(). Collective over the tensor group.
    void warm_up(comm::Group& group) const;

    // Returns the gradient of the output's bias, [C] fp32, if the norm's backward computes it
    // (folded_bias()), else none.
    View output_bias_gradient(const Pass& pass) const {
        return folded_bias(pass, grad_.output_bias);
    }

  private:
    // Normalizes query and key, from act.projected to act.qkv.
    void normalize(const Pass& pass, const AttentionActivations& act) const;
    // Replaces the gradient of act.qkv by the gradient of act.projected, in place.
    // dqkv: [B, T, (H+2G)*D] compute.
    void normalize_backward(const Pass& pass, const View& dqkv,
                            const AttentionActivations& act) const;
    // Computes the sums over the rows of query and key that a norm of all heads needs
    // (device::JointNormSums). sums: [2, N] fp32.
    void joint_sums(const Pass& pass, device::JointNormSums args, const View& sums) const;
    // Rotates queries and keys of qkv, [B, T, (H+2G)*D] compute, in place by the rotary embedding.
    // `inverse` rotates gradients back. Does nothing for other position embeddings.
    void rotate(const Pass& pass, const View& qkv, bool inverse) const;
    // Returns the first keys of the queries in the layer's window, [B, T] int32, or none.
    // qkv: [B, T, (H+2G)*D] compute.
    View first_keys(const Pass& pass, const View& qkv) const;
    // Returns the ALiBi slopes of this rank's heads, [H] fp32, or none.
    View slopes(const Pass& pass) const;
    device::Dropout dropout(const Pass& pass) const;
    // Returns the share of the heads that this tensor rank has.
    double share_of_heads(const Pass& pass) const;

    AttentionParams weight_, grad_;
    LayerSetup layer_;
};

}  // namespace lm::model
