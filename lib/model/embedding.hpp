// SPDX-License-Identifier: Apache-2.0
// The embedding: for each token, the sum of its row of the word embedding matrix and, if the model
// has one, a row of the learned position matrix. An embedding norm, if the model has one,
// normalizes the word rows before the sum. The vocabulary is split over the tensor ranks. Shapes:
// model/pass.hpp.
#pragma once

#include "model/residual_norm.hpp"

namespace lm::model {

struct EmbeddingParams {
    View word;        // [V, C] compute; gradient fp32
    View position;    // [P, C] compute, or none; gradient fp32
    NormParams norm;  // none: no embedding norm
};

// All views are none in a model without an embedding norm.
struct EmbeddingActivations {
    View words;  // [R, C] compute: the word rows before the norm
    View mean;   // [R] fp32
    View rstd;   // [R] fp32
};

class Embedding {
  public:
    Embedding() = default;
    Embedding(const EmbeddingParams& weights, const EmbeddingParams& gradients)
        : weight_(weights), grad_(gradients), norm_(weights.norm, gradients.norm) {}

    // Returns the branch that begins the residual stream, [R, C] compute, in scratch.branch.
    // `scratch_rows`: [R, C] compute, memory that forward() may overwrite.
    View forward(const Pass& pass, const EmbeddingActivations& act, const View& scratch_rows) const;
    // Adds this micro-batch's part to the gradients of all parameters. The first micro-batch
    // overwrites the gradients of the norm. dbranch: [R, C] compute.
    void backward(const Pass& pass, const View& dbranch, const EmbeddingActivations& act) const;

    // Zeroes the gradients to which backward() always adds. `word`: also zeroes the gradient of the
    // word embedding matrix; pass false when a tied head overwrites that gradient.
    void zero_gradients(const Pass& pass, bool word) const;
    // Sums the gradients of the norm: ResidualNorm::sum_gradients(). Collective over the tensor
    // group.
    void sum_gradients(const TensorParallel& tensor) const { norm_.sum_gradients(tensor); }

  private:
    // Computes forward() with a norm after the embedding. Returns [R, C] compute. scratch_rows: [R,
    // C] compute.
    View forward_normalized(const Pass& pass, const EmbeddingActivations& act,
                            const View& scratch_rows) const;

    EmbeddingParams weight_, grad_;
    ResidualNorm norm_;
};

}  // namespace lm::model
