// SPDX-License-Identifier: Apache-2.0
// One chunk of a GPT: adjacent layers, with the embedding before the first layer of the model and
// the head after the last. On one rank the chunk is the whole model. The chunk runs forward and
// backward of one micro-batch through the modules of lib/model, for all devices and layouts. It
// allocates nothing. The model is a transformer (Radford et al. 2019, "Language models are
// unsupervised multitask learners", whose norms stand before attention and MLP; spec::NormPlacement
// has other places). Shapes: model/pass.hpp.
#pragma once

#include "model/activations.hpp"
#include "model/params.hpp"

namespace lm::model {

// The micro-batch that a call computes.
struct MicroBatch {
    int slot = 0;          // the slot of its activations
    bool training = true;  // with dropout
    bool first = true;     // first of the step: it overwrites weight gradients; later micro-batches
                           // add to them
    bool last = true;      // last of the step: its backward completes the gradients
};

// Callbacks between the units of a chunk, which overlap the communication of weights and
// gradients with compute. Units: spec/partition.hpp. A tied word embedding matrix belongs to the
// embedding's unit when this chunk has the embedding, else to the head's unit
// (LocalTensor::unit).
class ChunkHooks {
  public:
    virtual ~ChunkHooks() = default;
    // forward() calls this once for each unit, in order, just before it reads the unit's weights.
    // An override waits until these weights are gathered.
    virtual void before_forward(i64 unit) { (void)unit; }
    // backward() of the `last` micro-batch calls this once for each unit, from the head down to the
    // embedding, when the unit's gradients are complete on this rank.
    virtual void after_backward(i64 unit) { (void)unit; }
};

struct ChunkSetup {
    spec::ModelConfig config;
    spec::ParallelConfig parallel;
    spec::ModelPart part;
    i64 tensor_comm_sms = 0;        // ModuleSetup::tensor_comm_sms
    u64 seed = 0;                   // seed of dropout
    comm::Group* tensor = nullptr;  // the tensor ranks, outlives the chunk; nullptr: one rank
    ChunkHooks* hooks = nullptr;    // outlives the chunk; or nullptr
};

class GptChunk {
  public:
    // ParamMap::bind(flat, chunk) gives `weights` and `gradients`, bind_activations() gives
    // `activations`. All views outlive the chunk.
    GptChunk(const ChunkSetup& setup, const Params& weights, const Params& gradients,
             ChunkActivations activations);

    const spec::ModelPart& part() const { return part_; }
    bool has_head() const { return part_.head; }
    const Scratch& scratch() const { return setup_.scratch; }
    const MicroBatchActivations& slot(int slot) const { return slots_[static_cast<size_t>(slot)]; }
    int n_slots() const { return static_cast<int>(slots_.size()); }

    // Return the residual stream, [R, C] compute: stage_input() at the start of a chunk without the
    // embedding, stage_output() at the end of a chunk without the head. Before forward(), the
    // caller receives the input into stage_input(). backward() overwrites the input with its
    // gradient. forward() writes the output to stage_output(). Before backward(), the caller
    // receives the output's gradient into stage_output().
    const View& stage_input(int slot) const { return first_stream(this->slot(slot)); }
    // [R, C] compute
    const View& stage_output(int slot) const { return this->slot(slot).final_norm.stream; }

    // Computes the output of the final norm; in a chunk without the head, computes stage_output().
    // Reads the tokens; in a chunk without the embedding, reads stage_input().
    void forward(device::Context& context, const MicroBatch& micro_batch);

    // Adds the weighted sum of the token losses to step_sums[loss_sum]; the sum is the same on all
    // tensor ranks. Call it after forward(), for a chunk with the head.
    void loss(device::Context& context, const MicroBatch& micro_batch);
    // Does the work of loss(), and also computes the gradients of the projection and of the final
    // norm's output, times `grad_scale`. This is the head's backward; model/head.hpp states why
    // loss and backward are one call.
    void loss_and_gradient(device::Context& context, const MicroBatch& micro_batch,
                           double grad_scale);

    // Computes the gradients of all parameters and of stage_input(). Starts from the gradient of
    // the final norm's output; in a chunk without the head, from the gradient in stage_output().
    // After the `last` micro-batch, tensor-replicated parameters have the same gradient on all
    // tensor ranks.
    void backward(device::Context& context, const MicroBatch& micro_batch);

    // Connects the tensor group for the collectives of a step. This runs collectives in the memory
    // of activations and gradients, which must be zero before the call and is zero after it.
    // Collective over the tensor group.
    void warm_up() const;

    // Writes the logits of rows [begin, end) of the micro-batch in `slot` to out [end - begin, V]
    // compute. Call it after forward(), without sequence parallelism.
    void logits(device::Context& context, int slot, i64 begin, i64 end, const View& out) const;

  private:
    struct Layer {
        ResidualNorm attention_norm;
        Attention attention;
        ResidualNorm attention_output_norm;
        ResidualNorm mlp_norm;
        Mlp mlp;
        ResidualNorm mlp_output_norm;
        bool parallel_residual;
        bool shared_norm;

        // Returns the gradient of the bias that a branch ends with, [C] fp32, if the backward of
        // the next addition to the stream computes it (folded_bias()), else none.
        View attention_bias(const Pass& pass) const;
        View mlp_bias(const Pass& pass) const;
        void sum_gradients(const TensorParallel& tensor) const;
    };

    // Returns the stream before the first layer, [R, C] compute; in a chunk without layers (the
    // embedding or the head alone), the chunk's only stream.
    static const View& first_stream(const MicroBatchActivations& act) {
        return act.layers.empty() ? act.final_norm.stream
                                  : act.layers.front().attention_norm.stream;
    }
    Pass pass_of(device::Context& context, const MicroBatch& micro_batch) const;
    // branch: [R, C] compute, added to the stream where the layer begins; none: the layer's stream
    // exists already.
    void forward_layer(const Pass& pass, const MicroBatchActivations& act, i64 layer,
                       const View& branch);
    // x: [R, C] compute, the embedding's output or its gradient.
    void scale_embedding(const Pass& pass, const View& x) const;
    // Returns the branch of the layer's MLP, [R, C] compute, after forward_layer().
    View mlp_branch(const Pass& pass, const MicroBatchActivations& act, i64 layer) const;
    // Returns the gradient of forward_layer()'s `branch`, [R, C] compute. dbranch: [R, C] compute,
    // the gradient of the layer's MLP branch.
    View backward_layer(const Pass& pass, const MicroBatchActivations& act, i64 layer,
                        const View& dbranch);
    // Returns the gradient of the last layer's MLP branch, [R, C] compute.
    View backward_final_norm(const Pass& pass, const MicroBatchActivations& act);
    void recompute_layers(const Pass& pass, const MicroBatchActivations& act,
                          const cost::LayerGroup& group);
    device::Dropout dropout_before(const Pass& pass, i64 layer) const;
    View bias_before(const Pass& pass, i64 layer) const;
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
    bool tied_ = false;  // this chunk's head and embedding share one matrix
    std::vector<MicroBatchActivations> slots_;
};

}  // namespace lm::model
