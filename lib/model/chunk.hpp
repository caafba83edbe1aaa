// SPDX-License-Identifier: Apache-2.0
// One chunk of a GPT: adjacent layers, with the embedding when they are the first and the head when
// they are the last; the whole model on one rank. Forward and backward of one micro-batch stand
// side by side in the same order, over the operations of device/ops.hpp: the walk over the
// layers in gpt.cpp, the embedding in embedding.cpp, a layer in block.cpp, the head and the loss in
// head.cpp. Written once for all devices and layouts; allocates nothing. Pre-norm transformer
// (Radford et al. 2019, "Language models are unsupervised multitask learners").
#pragma once

#include "device/ops.hpp"
#include "model/activations.hpp"
#include "model/params.hpp"
#include "model/tensor_parallel.hpp"

namespace lm::model {

// A micro-batch on its way through a chunk.
struct MicroBatch {
    int slot = 0;          // which of the chunk's activations in flight
    bool training = true;  // dropout; and the head's backward with the loss
    bool first = true;     // of the step: gradients overwrite, those of later ones add
    bool last = true;      // of the step: its backward completes the gradients
};

// What others learn while a chunk runs, so that communication goes on behind computation. Units are
// those of spec/rank_layout.hpp. A tied word table counts to the embedding's unit where the chunk's
// rank has that, else to the head's (LocalTensor::unit).
class ChunkHooks {
  public:
    virtual ~ChunkHooks() = default;
    // The unit's weights are read next: they must have arrived when this returns. Once for each
    // forward(), of the units in order; the head's in loss().
    virtual void before_forward(i64 unit) { (void)unit; }
    // The unit's gradients are complete on this rank. Only for a micro-batch that is `last`, from
    // the head down to the embedding.
    virtual void after_backward(i64 unit) { (void)unit; }
};

// What a chunk is made of. The group and the hooks outlive it.
struct ChunkSetup {
    spec::ModelConfig config;
    spec::ParallelConfig parallel;
    spec::ModelPart part;
    u64 seed = 0;                   // of dropout
    comm::Group* tensor = nullptr;  // the ranks that share the layers; none: one rank
    ChunkHooks* hooks = nullptr;    // or none
};

class GptChunk {
  public:
    // `weights` and `gradients` are bound by ParamMap::bind(flat, chunk), `activations` by
    // bind_activations(); all views outlive the model.
    GptChunk(const ChunkSetup& setup, Params weights, Params gradients,
             ChunkActivations activations);

    const spec::ModelPart& part() const { return part_; }
    const SharedActivations& shared() const { return shared_; }
    const MicroBatchActivations& slot(int slot) const { return slots_[static_cast<size_t>(slot)]; }
    int n_slots() const { return static_cast<int>(slots_.size()); }

    // What crosses the boundary between stages: the residual stream [R, C]. A stage's input is
    // received into stage_input(slot) before forward(), and after backward() its gradient lies in
    // the same place. Its output lies in stage_output(slot) after forward(), and the gradient of it
    // is received into the same place before backward(). Exist where the chunk has no embedding, or
    // no head.
    const View& stage_input(int slot) const { return this->slot(slot).layers.front().residual; }
    const View& stage_output(int slot) const { return this->slot(slot).final_residual; }

    // From tokens, positions, doc_start and sample_ids, or the stage's input, to final_norm, or the
    // stage's output.
    void forward(device::Context& context, const MicroBatch& micro_batch);

    // With the head only: head and loss from final_norm; adds the weighted sum of the token losses
    // to step_sums[loss_sum], the same on all tensor ranks. Logits exist for a chunk of rows at a
    // time, so that the head's backward happens here as well: in training, dfinal and the word
    // table's (or output projection's) gradient, both times `grad_scale`.
    void loss(device::Context& context, const MicroBatch& micro_batch, double grad_scale);

    // From dfinal, or the gradient of the stage's output, to the gradients of all parameters and of
    // the stage's input. Tensor-replicated parameters get the same gradient on all tensor ranks
    // with the micro-batch that is `last`.
    void backward(device::Context& context, const MicroBatch& micro_batch);

    // Warms up what the tensor group carries, in activations and gradients that hold zeros.
    void warm_up() const;

    // This rank's vocabulary share of the logits of rows [begin, end) of the micro-batch in `slot`
    // into `out` ([end - begin, vocabulary rows]), for converters and tests. Not with sequence
    // parallelism.
    void logits(device::Context& context, int slot, i64 begin, i64 end, const View& out);

  private:
    // One micro-batch's pass: what every piece of the model needs.
    struct Pass {
        device::Context& context;
        const MicroBatchActivations& act;
        bool training = true;
        bool accumulate = true;  // gradients add
    };
    Pass pass_of(device::Context& context, const MicroBatch& micro_batch) const;

    void embedding_forward(const Pass& pass);
    void embedding_backward(const Pass& pass);
    void final_forward(const Pass& pass);
    void final_backward(const Pass& pass);

    void embedding_norm_forward(const Pass& pass);
    View embedding_norm_backward(const Pass& pass, const View& dy);

    // The norms of a block, of the kept stream: what recompute makes again.
    device::ResidualNormForward attention_norm(const Pass& pass, i64 layer) const;
    device::ResidualNormForward mlp_norm(const Pass& pass, i64 layer) const;
    void attention_forward(const Pass& pass, i64 layer, bool join);
    void attention_backward(const Pass& pass, i64 layer);
    void rotate(const Pass& pass, const View& qkv, bool inverse);
    void mlp_forward(const Pass& pass, i64 layer);
    void activate(const Pass& pass, const LayerActivations& activations);
    void mlp_branch_forward(const Pass& pass, i64 layer);
    void mlp_backward(const Pass& pass, i64 layer);
    // Recompute: the layers of a group.
    void group_again(const Pass& pass, const cost::LayerGroup& group);

    // The gradients of a column-parallel product's weights and of its input, a norm's output of
    // which this rank has `norm`; the latter in this rank's rows.
    struct Column {
        View dy, norm;
        View w, dw, dbias;
    };
    View column_backward(const Pass& pass, const Column& product);

    void zero_accumulated(const Pass& pass);
    void sum_over_rows(const View& weight, const View& bias);
    void residual_norm_backward(const Pass& pass, device::ResidualNormBackward args);

    // Dropout of a row operation or of attention in local layer `layer`.
    device::Dropout dropout(const Pass& pass, double p, i64 layer, device::DropoutSite site) const;
    // Of the branch that was added just before block `layer` began.
    device::Dropout dropout_before(const Pass& pass, i64 layer) const;
    View branch_gradient() const {
        return config_.hidden_dropout > 0.0 ? shared_.dbranch : shared_.dresidual;
    }
    // A row-parallel product's bias: added once, by one of the ranks whose parts are summed.
    View bias_once(const View& bias) const { return tensor_.first() ? bias : View{}; }
    void before_forward(i64 unit) {
        if (hooks_ != nullptr) hooks_->before_forward(unit);
    }
    void after_backward(const MicroBatch& micro_batch, i64 unit) {
        if (hooks_ != nullptr && micro_batch.last) hooks_->after_backward(unit);
    }

    spec::ModelConfig config_;
    spec::Recompute recompute_;
    spec::ModelPart part_;
    TensorParallel tensor_;
    spec::TensorShare share_;
    ChunkHooks* hooks_;
    Params weight_;
    Params grad_;
    std::vector<MicroBatchActivations> slots_;
    SharedActivations shared_;
    u64 seed_;
};

}  // namespace lm::model
