// SPDX-License-Identifier: Apache-2.0
// One chunk of a GPT: adjacent layers, with the embedding when they are the first and the head when
// they are the last; on one rank the whole model. Chains the modules of lib/model: forward and
// backward of one micro-batch. Written once for all devices and layouts; allocates nothing.
// Pre-norm transformer (Radford et al. 2019, "Language models are unsupervised multitask
// learners"). Shapes: model/pass.hpp.
#pragma once

#include "model/activations.hpp"
#include "model/params.hpp"

namespace lm::model {

// The micro-batch that a call computes.
struct MicroBatch {
    int slot = 0;          // its activations are slot(slot)
    bool training = true;  // dropout is on
    bool first = true;     // the step's first: overwrites weight gradients, later ones add to them
    bool last = true;      // the step's last: its backward completes the gradients
};

// Called between the units of a chunk, so that communication of weights and gradients overlaps with
// compute. Units: spec/rank_layout.hpp. A tied word table belongs to the embedding's unit where the
// chunk's rank has that, else to the head's (LocalTensor::unit).
class ChunkHooks {
  public:
    virtual ~ChunkHooks() = default;
    // The unit's weights are read next: they must have arrived when this returns. Called once for
    // each unit in a forward(), in order.
    virtual void before_forward(i64 unit) { (void)unit; }
    // The unit's gradients are complete on this rank. Called for the `last` micro-batch only, from
    // the head down to the embedding.
    virtual void after_backward(i64 unit) { (void)unit; }
};

struct ChunkSetup {
    spec::ModelConfig config;
    spec::ParallelConfig parallel;
    spec::ModelPart part;
    u64 seed = 0;                   // dropout's
    comm::Group* tensor = nullptr;  // the tensor ranks, outlives the chunk; none: one rank
    ChunkHooks* hooks = nullptr;    // outlives the chunk; or none
};

class GptChunk {
  public:
    // `weights` and `gradients` are bound by ParamMap::bind(flat, chunk), `activations` by
    // bind_activations(); all views outlive the chunk.
    GptChunk(const ChunkSetup& setup, const Params& weights, const Params& gradients,
             ChunkActivations activations);

    const spec::ModelPart& part() const { return part_; }
    bool has_head() const { return part_.head; }
    const Scratch& scratch() const { return setup_.scratch; }
    const MicroBatchActivations& slot(int slot) const { return slots_[static_cast<size_t>(slot)]; }
    int n_slots() const { return static_cast<int>(slots_.size()); }

    // The residual stream at the chunk's ends, [R, C] compute, for chunks without the embedding,
    // or without the head. The input is received into stage_input() before forward(); backward()
    // replaces it by its gradient. forward() leaves the output in stage_output(); its gradient is
    // received into the same place before backward().
    const View& stage_input(int slot) const {
        return this->slot(slot).layers.front().attention_norm.stream;
    }
    const View& stage_output(int slot) const { return this->slot(slot).final_norm.stream; }

    // Computes the final norm's output, or the stage's output, from the inputs, or the stage's
    // input.
    void forward(device::Context& context, const MicroBatch& micro_batch);

    // Adds the weighted sum of the token losses to step_sums[loss_sum], the same on all tensor
    // ranks. Only for chunks with the head, after forward().
    void loss(device::Context& context, const MicroBatch& micro_batch);
    // The same, and computes the gradients of the projection and of the final norm's output, times
    // `grad_scale`: the head's backward. model/head.hpp states why the two are one.
    void loss_and_gradient(device::Context& context, const MicroBatch& micro_batch,
                           double grad_scale);

    // Computes the gradients of all parameters and of the stage's input, from the gradient of the
    // final norm's output, or of the stage's output. After the `last` micro-batch
    // tensor-replicated parameters have the same gradient on all tensor ranks.
    void backward(device::Context& context, const MicroBatch& micro_batch);

    // Connects the tensor group for the collectives of a step. Overwrites activations and
    // gradients, which hold zeros before and afterwards. Collective over the tensor group.
    void warm_up() const;

    // Writes the logits of rows [begin, end) of the micro-batch in `slot`, after forward(), to
    // out [end - begin, V] compute. Not with sequence parallelism.
    void logits(device::Context& context, int slot, i64 begin, i64 end, const View& out) const;

  private:
    struct Layer {
        ResidualNorm attention_norm;
        Attention attention;
        ResidualNorm mlp_norm;
        Mlp mlp;
    };

    Pass pass_of(device::Context& context, const MicroBatch& micro_batch) const;
    void forward_layer(const Pass& pass, const MicroBatchActivations& act, i64 layer,
                       const View& branch);
    View backward_layer(const Pass& pass, const MicroBatchActivations& act, i64 layer,
                        const View& dbranch);
    View backward_final_norm(const Pass& pass, const MicroBatchActivations& act);
    void recompute_layers(const Pass& pass, const MicroBatchActivations& act,
                          const cost::LayerGroup& group);
    void zero_gradients(const Pass& pass);
    device::Dropout dropout_before(const Pass& pass, i64 layer) const;
    device::Dropout dropout_of_attention_output(const Pass& pass, i64 layer) const;

    void before_forward(i64 unit) {
        if (hooks_ != nullptr) hooks_->before_forward(unit);
    }
    void after_backward(const MicroBatch& micro_batch, i64 unit) {
        if (hooks_ != nullptr && micro_batch.last) hooks_->after_backward(unit);
    }

    ModuleSetup setup_;
    spec::Recompute recompute_;
    spec::ModelPart part_;
    ChunkHooks* hooks_;
    Embedding embedding_;
    std::vector<Layer> layers_;
    ResidualNorm final_norm_;
    Head head_;
    bool tied_ = false;  // this chunk's head and embedding have the same table
    std::vector<MicroBatchActivations> slots_;
};

}  // namespace lm::model
