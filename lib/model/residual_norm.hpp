// SPDX-License-Identifier: Apache-2.0
// Residual addition and the norm that follows it, as one operation that reads the stream once. A
// pre-norm transformer alternates this operation with its branches (attention, MLP):
// stream += dropout(branch); y = norm(stream); branch = module(y).
#pragma once

#include "model/pass.hpp"

namespace lm::model {

struct NormParams {
    // The norms of queries and keys (attention.hpp) have [D] instead of [C].
    View weight;  // [C] compute; gradient [C] fp32
    View bias;    // [C] compute; gradient [C] fp32; none for RMSNorm
};

struct ResidualNormActivations {
    View stream;  // [R, C] compute: the residual stream after the addition
    View y;       // [R, C] compute: the normalized stream
    View mean;    // [R] fp32
    View rstd;    // [R] fp32

    // Returns what the module after the norm reads, [R, C] compute.
    const View& output() const { return y ? y : stream; }
};

class ResidualNorm {
  public:
    ResidualNorm() = default;
    // With empty `weights` the operation is only the addition: the last operation of a stage
    // without the head, the addition of attention's branch in a layer with a parallel residual, and
    // all additions of a layer with reordered norms.
    ResidualNorm(const NormParams& weights, const NormParams& gradients)
        : weight_(weights), grad_(gradients) {}

    struct Addition {
        View branch;    // [R, C] compute
        View residual;  // [R, C] compute; none: the branch begins the stream
        device::Dropout dropout = {};
    };
    // Computes stream = residual + dropout(branch); y = norm(stream).
    void forward(const Pass& pass, const Addition& add, const ResidualNormActivations& act) const;

    // Computes y = norm(act.stream) without an addition: for a stage's input, and in recomputation.
    void normalize(const Pass& pass, const ResidualNormActivations& act) const;

    // Returns the norm of a module's output, [R, C] compute, in scratch.branch; with empty weights,
    // `branch` itself. branch: [R, C] compute, act.stream with weights.
    View normalize_branch(const Pass& pass, const View& branch,
                          const ResidualNormActivations& act) const;
    // Returns the gradient of normalize_branch()'s `branch`, [R, C] compute, and computes the
    // gradients of the parameters and of the bias with which the branch ends. The gradient
    // overwrites act.stream. dy: [R, C] compute; branch_bias: [C] fp32, or none.
    View backward_branch(const Pass& pass, const View& dy, const View& branch_bias,
                         const ResidualNormActivations& act) const;

    struct StreamGradient {
        View dy;       // [R, C] compute; none: no module reads y
        View dstream;  // [R, C] compute: gradient of the stream from later layers; none: zero
        View out;      // [R, C] compute: receives the gradient of the stream; may be `dstream`
        device::Dropout dropout = {};  // as in forward()
        View branch_bias = {};  // [C] fp32: gradient of the bias that the branch ends with, or none
    };
    // Computes out = dstream + norm'(dy), with empty weights dstream + dy, the gradients of the
    // parameters, and the gradient of the branch's bias. Returns the gradient of the branch, [R, C]
    // compute: `out` itself; with dropout, scratch.dbranch.
    View backward(const Pass& pass, const StreamGradient& grad,
                  const ResidualNormActivations& act) const;

    // With sequence parallelism, sums the gradients over the tensor ranks, because each rank has
    // normalized only its own rows. Otherwise does nothing. Collective over the tensor group.
    void sum_gradients(const TensorParallel& tensor) const;

    bool empty() const { return !weight_.weight; }
    const NormParams& gradients() const { return grad_; }

  private:
    device::ResidualNormForward norm_arguments(const Pass& pass,
                                               const ResidualNormActivations& act) const;

    NormParams weight_, grad_;
};

}  // namespace lm::model
