// SPDX-License-Identifier: Apache-2.0
// The GPT itself: forward and backward of one micro-batch, side by side in the same order, over the
// operations of device/ops.hpp. Written once for all devices; allocates nothing.
// Pre-norm transformer (Radford et al. 2019, "Language models are unsupervised multitask
// learners").
#pragma once

#include "device/ops.hpp"
#include "model/activations.hpp"
#include "model/params.hpp"

namespace lm::model {

// Where gradients of a micro-batch go: the first of a step overwrites, the others add.
enum class Gradients { overwrite, accumulate };

class Gpt {
  public:
    // `weights` and `gradients` have the layout of ParamMap(config, ...); all views outlive the
    // model.
    Gpt(const spec::ModelConfig& config, Params weights, Params gradients, Activations activations,
        u64 seed);

    const Activations& activations() const { return act_; }

    // From tokens, positions, doc_start and sample_ids to final_norm.
    void forward(device::Context& context, bool training);

    // Head and loss from final_norm: adds the weighted sum of the token losses to
    // step_sums[loss_sum]. Logits exist for a chunk of rows at a time, so that the head's backward
    // happens here as well: with `training`, dfinal and the word table's gradient, both times
    // `grad_scale`.
    void loss(device::Context& context, bool training, double grad_scale, Gradients gradients);

    // From dfinal to the gradients of all parameters.
    void backward(device::Context& context, Gradients gradients);

    // Logits of all rows of the micro-batch, for converters and tests: rows [begin, end) into `out`
    // ([end - begin, V padded]).
    void logits(device::Context& context, i64 begin, i64 end, const View& out);

  private:
    void attention_forward(device::Context& context, i64 layer, bool training);
    void mlp_forward(device::Context& context, i64 layer, bool training);
    void mlp_backward(device::Context& context, i64 layer, bool accumulate);
    void attention_backward(device::Context& context, i64 layer, bool accumulate);
    void zero_accumulated(device::Context& context);
    void residual_norm_backward(device::Context& context, device::ResidualNormBackward args);

    device::Dropout dropout(bool training, double p, i64 layer, device::DropoutSite site) const;
    // Dropout of the branch that was added just before block `layer` began.
    device::Dropout dropout_before(bool training, i64 layer) const;
    View branch_gradient(double p) const { return p > 0.0 ? act_.dbranch : act_.dresidual; }

    spec::ModelConfig config_;
    Params weight_;
    Params grad_;
    Activations act_;
    u64 seed_;
};

}  // namespace lm::model
