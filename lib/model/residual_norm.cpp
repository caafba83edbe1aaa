// SPDX-License-Identifier: Apache-2.0
#include "model/residual_norm.hpp"

namespace lm::model {

// Returns the arguments of the norm; the caller sets the norm's input.
device::ResidualNormForward ResidualNorm::norm_arguments(const Pass& pass,
                                                         const ResidualNormActivations& act) const {
    return {.norm = pass.setup.config.normalization,
            .eps = pass.setup.config.norm_eps,
            .weight = weight_.weight,
            .bias = weight_.bias,
            .y = act.y,
            .mean = act.mean,
            .rstd = act.rstd,
            .one_plus = pass.setup.config.norm_1p};
}

void ResidualNorm::forward(const Pass& pass, const Addition& add,
                           const ResidualNormActivations& act) const {
    device::ResidualNormForward args = norm_arguments(pass, act);
    args.branch = add.branch;
    args.residual = add.residual;
    args.dropout = add.dropout;
    args.sum = act.stream;
    device::residual_norm_forward(pass.context, args);
}

void ResidualNorm::normalize(const Pass& pass, const ResidualNormActivations& act) const {
    if (empty()) return;
    device::ResidualNormForward args = norm_arguments(pass, act);
    args.residual = act.stream;
    device::residual_norm_forward(pass.context, args);
}

View ResidualNorm::normalize_branch(const Pass& pass, const View& branch,
                                    const ResidualNormActivations& act) const {
    if (empty()) return branch;
    ResidualNormActivations own = act;
    own.y = pass.setup.tensor.own_rows(pass.setup.scratch.branch);
    normalize(pass, own);
    return own.y;
}

View ResidualNorm::backward_branch(const Pass& pass, const View& dy, const View& branch_bias,
                                   const ResidualNormActivations& act) const {
    if (empty()) return dy;
    return backward(pass, {.dy = dy, .dstream = {}, .out = act.stream, .branch_bias = branch_bias},
                    act);
}

View ResidualNorm::backward(const Pass& pass, const StreamGradient& grad,
                            const ResidualNormActivations& act) const {
    const View dbranch = grad.dropout.on() ? pass.setup.scratch.dbranch : View{};
    device::ResidualNormBackward args{.norm = pass.setup.config.normalization,
                                      .dsum_in = grad.dstream,
                                      .dsum = grad.out,
                                      .dropout = grad.dropout,
                                      .dbranch = dbranch,
                                      .accumulate = pass.accumulate,
                                      .dbranch_bias = grad.branch_bias};
    if (grad.dy && empty()) {
        device::residual_norm_forward(
            pass.context, {.branch = grad.dy, .residual = grad.dstream, .sum = grad.out});
        args.dsum_in = grad.out;
    } else if (grad.dy) {
        args.dy = grad.dy;
        args.sum = act.stream;
        args.weight = weight_.weight;
        args.mean = act.mean;
        args.rstd = act.rstd;
        args.dweight = grad_.weight;
        args.dbias = grad_.bias;
        args.one_plus = pass.setup.config.norm_1p;
    }
    device::residual_norm_backward(pass.context, args);
    return dbranch ? dbranch : grad.out;
}

void ResidualNorm::sum_gradients(const TensorParallel& tensor) const {
    if (!tensor.sequence_parallel() || !grad_.weight) return;
    tensor.all_sum(grad_.weight);
    if (grad_.bias) tensor.all_sum(grad_.bias);
}

}  // namespace lm::model
