// SPDX-License-Identifier: Apache-2.0
// The embedding: rows of the word table plus rows of a learned position table, if the model has
// one. If the model has an embedding norm, it normalizes the word rows. The vocabulary is split
// over the tensor ranks. Shapes: model/pass.hpp.
#pragma once

#include "model/residual_norm.hpp"

namespace lm::model {

struct EmbeddingParams {
    View word;        // [V, C] compute; gradient fp32
    View position;    // [P, C] compute, or none; gradient fp32
    NormParams norm;  // none: words are not normalized
};

// All views are none in a model without an embedding norm.
struct EmbeddingActivations {
    View words;  // [R, C] compute: the words before the norm
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
    // Adds this micro-batch's part to the gradients of all parameters. dbranch: [R, C] compute.
    void backward(const Pass& pass, const View& dbranch, const EmbeddingActivations& act) const;

    // Zeroes the gradients that backward adds to. `word`: includes the word table's gradient; false
    // when a head with the same table overwrites it.
    void zero_gradients(const Pass& pass, bool word) const;
    // Sums the gradients of the norm: ResidualNorm::sum_gradients(). Collective over the tensor
    // group.
    void sum_gradients(const TensorParallel& tensor) const { norm_.sum_gradients(tensor); }

  private:
    View forward_normalized(const Pass& pass, const EmbeddingActivations& act,
                            const View& scratch_rows) const;

    EmbeddingParams weight_, grad_;
    ResidualNorm norm_;
};

}  // namespace lm::model
