// SPDX-License-Identifier: Apache-2.0
// The head: output projection to the vocabulary, and cross-entropy. Logits exist for one chunk of
// rows at a time, so no rank ever has the logits of all rows. In training the gradient of the
// logits must be computed while the logits exist, so loss_and_gradient() is the forward and the
// backward of this module in one call. The vocabulary is split over the tensor ranks, which
// exchange three numbers for each row. Shapes: model/pass.hpp.
#pragma once

#include "model/pass.hpp"

namespace lm::model {

struct HeadParams {
    View weight;  // [V, C] compute: the word embedding matrix when tied; gradient fp32
};

struct HeadActivations {
    View losses;  // [B, T] fp32: the loss of each token, unweighted
    View dx;      // [R, C] compute: gradient of the head's input
};

class Head {
  public:
    Head() = default;
    Head(const HeadParams& weights, const HeadParams& gradients)
        : weight_(weights), grad_(gradients) {}

    // Adds the weighted sum of the token losses to step_sums[loss_sum]; the sum is the same on all
    // tensor ranks. x: [R, C] compute, the final norm's output.
    void loss(const Pass& pass, const View& x, const HeadActivations& act) const;
    // Does the work of loss(), and also computes act.dx and the weight's gradient, both times
    // `grad_scale`. x: [R, C] compute.
    void loss_and_gradient(const Pass& pass, const View& x, const HeadActivations& act,
                           double grad_scale) const;

    // Writes the logits of the rows x [S, C] compute to out [S, V] compute.
    void logits(const Pass& pass, const View& x, const View& out) const;

  private:
    struct Rows;  // a chunk of rows and their statistics
    // Returns the next chunk of rows, from row `begin` on. x: [N, C] compute, the rows of all
    // tensor ranks.
    Rows rows_of(const Pass& pass, const View& x, const HeadActivations& act, i64 begin) const;
    void forward_rows(const Pass& pass, const Rows& rows) const;
    void gradient_rows(const Pass& pass, const Rows& rows, double grad_scale) const;
    void add_to_step_loss(const Pass& pass, const HeadActivations& act) const;

    HeadParams weight_, grad_;
};

}  // namespace lm::model
