// SPDX-License-Identifier: Apache-2.0
#include "model/mlp.hpp"

namespace lm::model {
void Mlp::forward_up(const Pass& pass, const View& x, const MlpActivations& act) const {
    device::LinearForward up{.x = x, .w = weight_.up_weight, .bias = weight_.up_bias, .y = act.up};
    if (spec::is_gated(activation_)) {
        column_linear_forward(pass, up);
        return recompute_activation(pass, act);
    }
    // The GEMM applies the activation to its result, and keeps the activation's argument as well.
    up.y = act.activated;
    up.activation = activation_;
    up.pre_activation = act.up;
    up.recomputed = pass.setup.selective_recompute;
    column_linear_forward(pass, up);
}

View Mlp::forward_down(const Pass& pass, const MlpActivations& act, const View& y) const {
    return row_linear_forward(
        pass, {.x = act.activated, .w = weight_.down_weight, .bias = weight_.down_bias}, y);
}

void Mlp::recompute_activation(const Pass& pass, const MlpActivations& act) const {
    if (spec::is_gated(activation_)) {
        device::gated_forward(pass.context, {.gate = activation_, .x = act.up, .y = act.activated});
    } else {
        device::activation_forward(pass.context,
                                   {.x = act.up, .y = act.activated, .activation = activation_});
    }
}

View Mlp::backward(const Pass& pass, const View& dbranch, const View& x,
                   const MlpActivations& act) const {
    const Scratch& scratch = pass.setup.scratch;
    const View dup = part_like(scratch.dmlp, act.up);
    const bool gated = spec::is_gated(activation_);
    // Without a gate, the GEMM multiplies its result by the derivative of the activation.
    device::LinearBackwardInput down{.w = weight_.down_weight, .dx = gated ? scratch.dgated : dup};
    if (!gated) {
        down.activation = activation_;
        down.pre_activation = act.up;
    }
    row_linear_backward(pass, {.dy = dbranch,
                               .x = act.activated,
                               .dw = grad_.down_weight,
                               .dbias = grad_.down_bias,
                               .input = down});
    if (gated) {
        device::gated_backward(pass.context,
                               {.gate = activation_, .dy = scratch.dgated, .x = act.up, .dx = dup});
    }
    return column_linear_backward(
        pass,
        {.dy = dup, .x = x, .w = weight_.up_weight, .dw = grad_.up_weight, .dbias = grad_.up_bias});
}

}  // namespace lm::model
