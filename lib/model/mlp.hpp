// SPDX-License-Identifier: Apache-2.0
// The feed-forward block of one layer: up projection (with a gate: the gate's projection, then the
// up projection), activation, down projection. The F columns are split over the tensor ranks.
// Shapes: model/pass.hpp.
#pragma once

#include "model/parallel_linear.hpp"

namespace lm::model {

struct MlpParams {
    View up_weight;    // [U, C] compute, the gate's rows first; gradient fp32
    View up_bias;      // [U] compute, or none; gradient fp32
    View down_weight;  // [C, F] compute; gradient fp32
    View down_bias;    // [C] compute, or none; gradient fp32
};

struct MlpActivations {
    View up;         // [N, U] compute: the up projection's output
    View activated;  // [N, F] compute: activation of `up`
};

class Mlp {
  public:
    Mlp(const MlpParams& weights, const MlpParams& gradients, spec::Activation activation)
        : weight_(weights), grad_(gradients), activation_(activation) {}

    // forward_up() and forward_down() are the two halves of the forward pass. They are separate
    // because recomputation of activations needs only the first half. x: [R, C] compute.
    void forward_up(const Pass& pass, const View& x, const MlpActivations& act) const;
    // Computes the branch, [R, C] compute, and returns it: `y`, or without it a view of
    // scratch.branch.
    View forward_down(const Pass& pass, const MlpActivations& act, const View& y) const;

    // Recomputes `activated` from `up`, with the same bits as forward_up(), for selective
    // recomputation.
    void recompute_activation(const Pass& pass, const MlpActivations& act) const;

    // Computes the gradients of the parameters, but not the gradient of the down bias if
    // down_bias_gradient() returns a view. Returns the gradient of x, [R, C] compute, in
    // scratch.dnorm. dbranch: [R, C] compute; x: [R, C] compute, as in forward_up().
    View backward(const Pass& pass, const View& dbranch, const View& x,
                  const MlpActivations& act) const;

    // Returns the gradient of the down projection's bias, [C] fp32, if the norm's backward computes
    // it (folded_bias()), else none.
    View down_bias_gradient(const Pass& pass) const { return folded_bias(pass, grad_.down_bias); }

  private:
    MlpParams weight_, grad_;
    spec::Activation activation_;
};

}  // namespace lm::model
