// SPDX-License-Identifier: Apache-2.0
// Residual addition and the norm that follows it, as one operation: both in one pass over memory.
// A pre-norm transformer alternates them with its branches (attention, MLP):
// stream += dropout(branch); y = norm(stream); branch = module(y).
#pragma once

#include "model/pass.hpp"

namespace lm::model {

struct NormParams {
    View weight;  // [C] compute; gradient [C] fp32
    View bias;    // [C] compute; gradient [C] fp32; none for RMSNorm
};

struct ResidualNormActivations {
    View stream;  // [R, C] compute: the residual stream after the addition
    View y;       // [R, C] compute: the normalized stream
    View mean;    // [R] fp32
    View rstd;    // [R] fp32
};

class ResidualNorm {
  public:
    ResidualNorm() = default;
    // Without parameters there is only the addition: the last of a stage without the head.
    ResidualNorm(const NormParams& weights, const NormParams& gradients)
        : weight_(weights), grad_(gradients) {}

    struct Addition {
        View branch;    // [R, C] compute
        View residual;  // [R, C] compute; none: the branch begins the stream
        device::Dropout dropout = {};
    };
    // stream = residual + dropout(branch); y = norm(stream).
    void forward(const Pass& pass, const Addition& add, const ResidualNormActivations& act) const;

    // y = norm(act.stream), without an addition: for a stage's input, and in recomputation.
    void normalize(const Pass& pass, const ResidualNormActivations& act) const;

    struct StreamGradient {
        View dy;       // [R, C] compute; none: y was not used
        View dstream;  // [R, C] compute: gradient of the stream from later layers; none: zero
        View out;      // [R, C] compute: where the gradient of the stream goes; may be `dstream`
        device::Dropout dropout = {};  // as in forward()
    };
    // out = dstream + norm'(dy). Adds to the gradients of the parameters. Returns the gradient of
    // the branch, [R, C]: `out` itself, or with dropout scratch.dbranch.
    View backward(const Pass& pass, const StreamGradient& grad,
                  const ResidualNormActivations& act) const;

    // Backward only adds to the gradients, so they are zeroed before the first micro-batch.
    void zero_gradients(const Pass& pass) const;
    // With sequence parallelism each tensor rank has normalized its own rows: adds up the
    // gradients. Collective over the tensor group.
    void sum_gradients(const TensorParallel& tensor) const;

    const NormParams& gradients() const { return grad_; }

  private:
    NormParams weight_, grad_;
};

}  // namespace lm::model
