// SPDX-License-Identifier: Apache-2.0
// Why backward is written by hand, and there is no graph with automatic differentiation.
//
// PyTorch records the operations of a forward pass and derives the backward pass from the record.
// That is the right design where models change every week and are written by their users. This
// program trains one family of models: a transformer whose variants (norms and their places,
// activation, positions, grouped queries) are choices inside of modules. 31 operations are enough
// for it and its optimizer, and each module has its backward next to its forward. This gives:
//
// - Memory. Which activation backward reads, and when it is read for the last time, is a fact of
//   this file, so the plan can be computed before the run (cost/activation_plan.hpp). A record is
//   only known after it was made. The gradient of a stage's input overwrites the input.
// - Operations larger than a formula. Residual, dropout and norm are one operation that reads the
//   stream once, and its backward also computes the bias gradient of the branch. The head computes
//   loss and gradient chunk by chunk while the logits exist (model/head.hpp), an order that a graph
//   of forward and then backward cannot express. For such cases Megatron-LM has autograd functions
//   with a backward that is written by hand, too.
// - Order. after_backward() is called when the gradients of a unit are complete, in the same order
//   on all ranks, so buckets can be reduced meanwhile. In PyTorch hooks on parameters must find out
//   that order at run time, and parameters without a gradient make it differ.
// - Recomputation is a call of forward_layer() and needs neither hooks nor saved random states.
// - In a debugger, the call stack of a backward pass has the modules, not an engine.
//
// The danger is a gradient that is slightly wrong and still trains. Therefore each backward
// operation is compared with finite differences in double precision (tests/device/cases), whole
// models with PyTorch's gradients and losses (tests/golden) and with Megatron-LM's training
// (live.megatron_training), and every layout with one rank.
//
// The price is paid by whoever adds to the model. A new module needs a backward, its activations in
// the table of cost/activation_plan.cpp, and in both directions the collectives of tensor and
// sequence parallelism. The recipes are in CONTRIBUTING.md and docs/architecture.md. A model that
// is no chain, for example with experts that only some tokens visit or with a second tower, does
// not fit into forward() and backward() of this class. Two of such families, or models that users
// write, would be the reason for a graph; then it should be one that is built before the run, so
// that memory stays a plan.
#include "model/chunk.hpp"

#include "base/error.hpp"

namespace lm::model {

using device::Context;
using device::Dropout;

GptChunk::GptChunk(const ChunkSetup& setup, const Params& weights, const Params& gradients,
                   ChunkActivations activations)
    : setup_{.config = setup.config,
             .share = {},
             .tensor = TensorParallel(setup.tensor, setup.parallel.sequence_parallel),
             .selective_recompute =
                 setup.parallel.recompute.granularity == spec::Recompute::Granularity::selective,
             .tensor_comm_sms = setup.tensor_comm_sms,
             .seed = setup.seed,
             .scratch = activations.scratch},
      recompute_(setup.parallel.recompute),
      part_(setup.part),
      hooks_(setup.hooks),
      slots_(std::move(activations.slots)) {
    LM_CHECK(setup_.tensor.size() == setup.parallel.tp, "expected tp={}, got a tensor group of {}",
             setup.parallel.tp, setup_.tensor.size());
    LM_CHECK(static_cast<i64>(weights.layers.size()) == part_.n_layers(),
             "expected weights of {} layers, got {}", part_.n_layers(), weights.layers.size());
    setup_.share = spec::tensor_share(setup.config, setup.parallel, setup_.tensor.rank());
    if (part_.embedding) embedding_ = Embedding(weights.embedding, gradients.embedding);
    const std::vector<i64> windows = spec::windows(setup.config);
    const std::vector<spec::RotaryFrequencies> rotary = spec::rotary_frequencies(setup.config);
    for (i64 layer = 0; layer < part_.n_layers(); ++layer) {
        const LayerParams& w = weights.layers[static_cast<size_t>(layer)];
        const LayerParams& g = gradients.layers[static_cast<size_t>(layer)];
        const i64 number = part_.first_layer + layer;
        const spec::LayerConfig config = setup.config.layer(number);
        const LayerSetup own{
            .number = number,
            .config = config,
            .heads = spec::head_share(setup.config, config, setup.parallel, setup_.tensor.rank()),
            .window = spec::index_of(windows, config.window),
            .rotary = spec::index_of(rotary, config.rotary),
            .joint_qk_norm = setup.config.joint_qk_norm};
        layers_.push_back(
            {.attention_norm = {w.attention_norm, g.attention_norm},
             .attention = {w.attention, g.attention, own},
             .attention_output_norm = {w.attention_output_norm, g.attention_output_norm},
             .mlp_norm = {w.mlp_norm, g.mlp_norm},
             .mlp = {w.mlp, g.mlp, config.activation},
             .mlp_output_norm = {w.mlp_output_norm, g.mlp_output_norm},
             .parallel_residual = config.parallel_residual,
             .shared_norm = config.shared_norm});
    }
    if (!part_.head) return;
    final_norm_ = ResidualNorm(weights.final_norm, gradients.final_norm);
    head_ = Head(weights.head, gradients.head);
    tied_ = part_.embedding && gradients.head.weight.data == gradients.embedding.word.data;
}

Pass GptChunk::pass_of(Context& context, const MicroBatch& micro_batch) const {
    return {context, setup_, slot(micro_batch.slot).inputs, micro_batch.training,
            !micro_batch.first};
}

// Returns the dropout of the branch that is added to the stream where local layer `layer` begins.
// The branch is the embedding or the previous layer's MLP.
Dropout GptChunk::dropout_before(const Pass& pass, i64 layer) const {
    const i64 number = part_.first_layer + layer;
    const double p = setup_.config.hidden_dropout;
    return number == 0 ? pass.dropout(p, 0, device::embedding_site)
                       : pass.dropout(p, number - 1, device::mlp_output_site);
}

// A norm of the branch computes the bias's gradient itself.
View GptChunk::Layer::attention_bias(const Pass& pass) const {
    return attention_output_norm.empty() ? attention.output_bias_gradient(pass) : View{};
}
View GptChunk::Layer::mlp_bias(const Pass& pass) const {
    return mlp_output_norm.empty() ? mlp.down_bias_gradient(pass) : View{};
}

void GptChunk::Layer::sum_gradients(const TensorParallel& tensor) const {
    mlp_output_norm.sum_gradients(tensor);
    mlp_norm.sum_gradients(tensor);
    attention_output_norm.sum_gradients(tensor);
    attention.sum_gradients(tensor);
    attention_norm.sum_gradients(tensor);
}

// Returns the previous layer's mlp_bias().
View GptChunk::bias_before(const Pass& pass, i64 layer) const {
    return layer > 0 ? layers_[static_cast<size_t>(layer - 1)].mlp_bias(pass) : View{};
}

Dropout GptChunk::dropout_of_attention_output(const Pass& pass, i64 layer) const {
    return pass.dropout(setup_.config.hidden_dropout, part_.first_layer + layer,
                        device::attention_output_site);
}

// ---- forward ----------------------------------------------------------------------------------

void GptChunk::forward(Context& context, const MicroBatch& micro_batch) {
    const Pass pass = pass_of(context, micro_batch);
    const MicroBatchActivations& act = slot(micro_batch.slot);
    View branch;  // [R, C] compute; empty: already added to the stream
    if (part_.embedding) {
        before_forward(spec::embedding_unit);
        // The first stream of the chunk has not been written yet, so its memory can be used as
        // scratch.
        branch = embedding_.forward(pass, act.embedding, first_stream(act));
        scale_embedding(pass, branch);
    }
    for (i64 layer = 0; layer < part_.n_layers(); ++layer) {
        before_forward(spec::unit_of_layer(part_.first_layer + layer));
        forward_layer(pass, act, layer, branch);
        branch = mlp_branch(pass, act, layer);
    }
    if (part_.head) before_forward(spec::head_unit(setup_.config));
    if (!branch) {  // only a head: the stream has the received input
        final_norm_.normalize(pass, act.final_norm);
        return;
    }
    final_norm_.forward(pass,
                        {.branch = branch,
                         .residual = layers_.empty() ? View{} : act.layers.back().middle,
                         .dropout = dropout_before(pass, part_.n_layers())},
                        act.final_norm);
}

// Multiplies the embedding's output, or its gradient, [R, C] compute, by the embedding multiplier.
void GptChunk::scale_embedding(const Pass& pass, const View& x) const {
    if (const double scale = setup_.config.embedding_scale; scale != 1)
        device::scale(pass.context, {.x = x, .factor = scale});
}

// Computes a layer up to the MLP's activation. First adds `branch` to the residual stream. An empty
// `branch` means that attention_norm.stream already has the stream, because the stream is the input
// of a stage or was kept for recomputation.
void GptChunk::forward_layer(const Pass& pass, const MicroBatchActivations& act, i64 layer,
                             const View& branch) {
    const auto index = static_cast<size_t>(layer);
    const Layer& modules = layers_[index];
    const LayerActivations& a = act.layers[index];
    if (branch) {
        const View residual = layer == 0 ? View{} : act.layers[index - 1].middle;
        modules.attention_norm.forward(
            pass, {.branch = branch, .residual = residual, .dropout = dropout_before(pass, layer)},
            a.attention_norm);
    } else {
        modules.attention_norm.normalize(pass, a.attention_norm);
    }
    const View attended = modules.attention.forward(pass, a.attention_norm.output(), a.attention,
                                                    a.attention_output_norm.stream);
    const ResidualNorm::Addition add{.branch = modules.attention_output_norm.normalize_branch(
                                         pass, attended, a.attention_output_norm),
                                     .residual = a.attention_norm.stream,
                                     .dropout = dropout_of_attention_output(pass, layer)};
    if (modules.parallel_residual) {
        ResidualNorm().forward(pass, add, {.stream = a.middle});
        modules.mlp_norm.normalize(pass, a.mlp_norm);
    } else {
        modules.mlp_norm.forward(pass, add, a.mlp_norm);
    }
    modules.mlp.forward_up(pass, a.mlp_norm.output(), a.mlp);
}

View GptChunk::mlp_branch(const Pass& pass, const MicroBatchActivations& act, i64 layer) const {
    const Layer& modules = layers_[static_cast<size_t>(layer)];
    const LayerActivations& a = act.layers[static_cast<size_t>(layer)];
    const View branch = modules.mlp.forward_down(pass, a.mlp, a.mlp_output_norm.stream);
    return modules.mlp_output_norm.normalize_branch(pass, branch, a.mlp_output_norm);
}

void GptChunk::loss(Context& context, const MicroBatch& micro_batch) {
    const MicroBatchActivations& act = slot(micro_batch.slot);
    head_.loss(pass_of(context, micro_batch), act.final_norm.y, act.head);
}

// ---- backward ---------------------------------------------------------------------------------

void GptChunk::loss_and_gradient(Context& context, const MicroBatch& micro_batch,
                                 double grad_scale) {
    const MicroBatchActivations& act = slot(micro_batch.slot);
    head_.loss_and_gradient(pass_of(context, micro_batch), act.final_norm.y, act.head, grad_scale);
}

void GptChunk::backward(Context& context, const MicroBatch& micro_batch) {
    const Pass pass = pass_of(context, micro_batch);
    const MicroBatchActivations& act = slot(micro_batch.slot);
    const TensorParallel& tensor = setup_.tensor;
    // The embedding's backward adds to its gradients, so these must be zero first. The first
    // micro-batch overwrites all other gradients, and also the gradient of a tied word embedding
    // matrix, because the head's GEMM precedes the embedding's backward.
    if (micro_batch.first && part_.embedding) embedding_.zero_gradients(pass, !tied_);
    View dbranch = backward_final_norm(pass, act);
    if (part_.head) {
        if (micro_batch.last) final_norm_.sum_gradients(tensor);
        after_backward(micro_batch, spec::head_unit(setup_.config));
    }
    for (i64 layer = part_.n_layers() - 1; layer >= 0; --layer) {
        const cost::LayerGroup group = cost::recompute_group(recompute_, part_.n_layers(), layer);
        if (layer + 1 == group.end) recompute_layers(pass, act, group);
        dbranch = backward_layer(pass, act, layer, dbranch);
        if (micro_batch.last) layers_[static_cast<size_t>(layer)].sum_gradients(tensor);
        after_backward(micro_batch, spec::unit_of_layer(part_.first_layer + layer));
    }
    if (!part_.embedding) return;
    scale_embedding(pass, dbranch);
    embedding_.backward(pass, dbranch, act.embedding);
    if (micro_batch.last) embedding_.sum_gradients(tensor);
    after_backward(micro_batch, spec::embedding_unit);
}

View GptChunk::backward_final_norm(const Pass& pass, const MicroBatchActivations& act) {
    const Dropout dropout = dropout_before(pass, part_.n_layers());
    const View& dresidual = setup_.scratch.dresidual;
    if (part_.head && layers_.empty() && !part_.embedding) {
        // The gradient of the stage's input overwrites the input, and is sent from the same memory.
        return final_norm_.backward(
            pass, {.dy = act.head.dx, .dstream = {}, .out = act.final_norm.stream, .dropout = {}},
            act.final_norm);
    }
    // Without a head, the gradient was received into the memory of the output.
    return final_norm_.backward(pass,
                                {.dy = part_.head ? act.head.dx : View{},
                                 .dstream = part_.head ? View{} : act.final_norm.stream,
                                 .out = dresidual,
                                 .dropout = dropout,
                                 .branch_bias = bias_before(pass, part_.n_layers())},
                                act.final_norm);
}

// Computes the gradients of a layer. `dbranch` is the gradient of the layer's MLP branch. Returns
// the gradient of the branch that was added before the layer. Updates the gradient of the stream in
// scratch.dresidual.
View GptChunk::backward_layer(const Pass& pass, const MicroBatchActivations& act, i64 layer,
                              const View& dbranch) {
    const auto index = static_cast<size_t>(layer);
    const Layer& modules = layers_[index];
    const LayerActivations& a = act.layers[index];
    const View& dresidual = setup_.scratch.dresidual;
    if (setup_.selective_recompute) {
        modules.attention_norm.normalize(pass, a.attention_norm);
        modules.mlp_norm.normalize(pass, a.mlp_norm);
        modules.mlp.recompute_activation(pass, a.mlp);
    }
    const View dmlp = modules.mlp_output_norm.backward_branch(
        pass, dbranch, modules.mlp.down_bias_gradient(pass), a.mlp_output_norm);
    const View dmlp_input = modules.mlp.backward(pass, dmlp, a.mlp_norm.output(), a.mlp);
    ResidualNorm::StreamGradient addition{.dy = dmlp_input,
                                          .dstream = dresidual,
                                          .out = dresidual,
                                          .dropout = dropout_of_attention_output(pass, layer),
                                          .branch_bias = modules.attention_bias(pass)};
    View dstream = dresidual;  // [R, C] compute: without attention's part
    if (modules.parallel_residual) {
        // The gradient of attention's branch does not include the MLP's part. That is kept in
        // a.middle: added to the stream's, or for a norm that attention reads as well, alone.
        if (modules.shared_norm) {
            device::cast(pass.context, {.x = dmlp_input, .y = a.middle});
        } else {
            dstream = a.middle;
            modules.mlp_norm.backward(
                pass, {.dy = dmlp_input, .dstream = dresidual, .out = dstream}, a.mlp_norm);
        }
        addition.dy = {};
    }
    const View dadded = (modules.parallel_residual ? ResidualNorm() : modules.mlp_norm)
                            .backward(pass, addition, a.mlp_norm);
    const View dattention = modules.attention_output_norm.backward_branch(
        pass, dadded, modules.attention.output_bias_gradient(pass), a.attention_output_norm);
    const View dattention_input =
        modules.attention.backward(pass, dattention, a.attention_norm.output(), a.attention);
    if (modules.shared_norm) {
        device::residual_norm_forward(
            pass.context, {.branch = dattention_input, .residual = a.middle, .sum = a.middle});
    }
    // No branch is added before the first layer of a later stage. The gradient of the stage's input
    // overwrites the input, and is sent from the same memory.
    const bool stage_input = layer == 0 && !part_.embedding;
    return modules.attention_norm.backward(
        pass,
        {.dy = modules.shared_norm ? a.middle : dattention_input,
         .dstream = dstream,
         .out = stage_input ? a.attention_norm.stream : dresidual,
         .dropout = stage_input ? Dropout{} : dropout_before(pass, layer),
         .branch_bias = bias_before(pass, layer)},
        a.attention_norm);
}

// Full recomputation: recomputes the activations of a group of layers from the stored stream at the
// start of the group. The last recomputed activation is the last layer's MLP activation, because
// backward reads no later activation; with a norm of the MLP's output, it is this norm's input.
void GptChunk::recompute_layers(const Pass& pass, const MicroBatchActivations& act,
                                const cost::LayerGroup& group) {
    View branch;  // [R, C] compute; empty: already added to the stream
    for (i64 layer = group.begin; layer < group.end; ++layer) {
        const auto index = static_cast<size_t>(layer);
        forward_layer(pass, act, layer, branch);
        if (layer + 1 < group.end || !layers_[index].mlp_output_norm.empty()) {
            branch = mlp_branch(pass, act, layer);
        }
    }
}

// ---- everything else --------------------------------------------------------------------------

// Warms up the tensor group for the largest collective of each kind: of activations, of gradients
// of norms, of statistics of the logits.
void GptChunk::warm_up() const {
    if (!setup_.tensor.several()) return;
    comm::Group& group = setup_.tensor.group();
    const Scratch& scratch = setup_.scratch;
    const auto sum = comm::Reduction::sum;
    if (setup_.tensor.sequence_parallel()) {
        const View own = setup_.tensor.own_rows(scratch.gathered);
        group.warm_up_all_gather(own, scratch.gathered);
        group.warm_up_reduce_scatter(scratch.gathered, own, sum);
        if (!layers_.empty()) {
            const Layer& layer = layers_.front();
            const ResidualNorm& norm =
                layer.attention_norm.empty() ? layer.attention_output_norm : layer.attention_norm;
            group.warm_up_all_reduce(norm.gradients().weight, sum);
        }
    } else {
        group.warm_up_all_reduce(scratch.branch, sum);
        if (!layers_.empty()) layers_.front().attention.warm_up(group);
    }
    if (!scratch.row_stats) return;
    const i64 rows = scratch.row_stats[1];
    group.warm_up_all_reduce(scratch.row_stats.flat().rows(0, rows), comm::Reduction::max);
    group.warm_up_all_reduce(scratch.row_stats.flat().rows(0, 2 * rows), sum);
}

void GptChunk::logits(Context& context, int slot, i64 begin, i64 end, const View& out) const {
    LM_CHECK(!setup_.tensor.sequence_parallel(),
             "expected all rows of the final norm on this rank, got sequence parallelism");
    const MicroBatchActivations& act = this->slot(slot);
    const Pass pass{context, setup_, act.inputs, false, false};
    head_.logits(pass, act.final_norm.y.rows(begin, end), out);
}

}  // namespace lm::model
