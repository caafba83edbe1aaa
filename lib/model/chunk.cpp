// SPDX-License-Identifier: Apache-2.0
#include "model/chunk.hpp"

#include "base/error.hpp"
#include "model/norm.hpp"

namespace lm::model {

using device::Context;
using device::Dropout;
using device::DropoutSite;

GptChunk::GptChunk(const ChunkSetup& setup, Params weights, Params gradients,
                   ChunkActivations activations)
    : config_(setup.config),
      recompute_(setup.parallel.recompute),
      part_(setup.part),
      tensor_(setup.tensor, setup.parallel.sequence_parallel),
      share_(spec::tensor_share(setup.config, setup.parallel, tensor_.rank())),
      hooks_(setup.hooks),
      weight_(std::move(weights)),
      grad_(std::move(gradients)),
      slots_(std::move(activations.slots)),
      shared_(activations.shared),
      seed_(setup.seed) {
    LM_CHECK(tensor_.size() == setup.parallel.tp, "a tensor group of another size");
    LM_CHECK(static_cast<i64>(weight_.layers.size()) == part_.n_layers(),
             "weights of another chunk");
}

GptChunk::Pass GptChunk::pass_of(Context& context, const MicroBatch& micro_batch) const {
    return {context, slot(micro_batch.slot), micro_batch.training, !micro_batch.first};
}

Dropout GptChunk::dropout(const Pass& pass, double p, i64 layer, DropoutSite site) const {
    return {.p = pass.training ? p : 0.0,
            .seed = seed_,
            .layer = static_cast<i32>(part_.first_layer + layer),
            .site = site,
            .sample_ids = pass.act.sample_ids,
            .first_head = share_.first_head,
            .first_row = tensor_.first_row(pass.act.final_residual[0]),
            .sample_rows = pass.act.layers.front().qkv[1]};
}

Dropout GptChunk::dropout_before(const Pass& pass, i64 layer) const {
    const double p = config_.hidden_dropout;
    return part_.first_layer + layer == 0 ? dropout(pass, p, 0, device::embedding_site)
                                          : dropout(pass, p, layer - 1, device::mlp_output_site);
}

// ---- forward ----------------------------------------------------------------------------------

void GptChunk::forward(Context& context, const MicroBatch& micro_batch) {
    const Pass pass = pass_of(context, micro_batch);
    if (part_.embedding) {
        before_forward(spec::embedding_unit);
        embedding_forward(pass);
    }
    for (i64 layer = 0; layer < part_.n_layers(); ++layer) {
        before_forward(spec::unit_of_layer(part_.first_layer + layer));
        attention_forward(pass, layer, part_.embedding || layer > 0);
        mlp_forward(pass, layer);
        mlp_branch_forward(pass, layer);
    }
    final_forward(pass);
}

// The last branch joins the stream; the head wants it normalized, the next stage does not.
void GptChunk::final_forward(const Pass& pass) {
    const bool head = part_.head;
    if (head) before_forward(spec::head_unit(config_));
    device::residual_norm_forward(pass.context,
                                  {.norm = norm_of(config_.normalization),
                                   .eps = config_.norm_eps,
                                   .branch = tensor_.own_rows(shared_.branch),
                                   .residual = pass.act.layers.back().residual_mid,
                                   .dropout = dropout_before(pass, part_.n_layers()),
                                   .sum = pass.act.final_residual,
                                   .weight = head ? weight_.final_norm_weight : View{},
                                   .bias = head ? weight_.final_norm_bias : View{},
                                   .y = pass.act.final_norm,
                                   .mean = pass.act.final_norm_mean,
                                   .rstd = pass.act.final_norm_rstd});
}

// ---- backward ---------------------------------------------------------------------------------

void GptChunk::backward(Context& context, const MicroBatch& micro_batch) {
    const Pass pass = pass_of(context, micro_batch);
    if (micro_batch.first) zero_accumulated(pass);
    final_backward(pass);
    if (part_.head) {
        if (micro_batch.last) sum_over_rows(grad_.final_norm_weight, grad_.final_norm_bias);
        after_backward(micro_batch, spec::head_unit(config_));
    }
    for (i64 layer = part_.n_layers() - 1; layer >= 0; --layer) {
        const cost::LayerGroup group = cost::recompute_group(recompute_, part_.n_layers(), layer);
        if (layer + 1 == group.end) group_again(pass, group);
        mlp_backward(pass, layer);
        attention_backward(pass, layer);
        if (micro_batch.last) {
            const LayerParams& g = grad_.layers[static_cast<size_t>(layer)];
            sum_over_rows(g.mlp_norm_weight, g.mlp_norm_bias);
            sum_over_rows(g.attention_norm_weight, g.attention_norm_bias);
        }
        after_backward(micro_batch, spec::unit_of_layer(part_.first_layer + layer));
    }
    if (!part_.embedding) return;
    embedding_backward(pass);
    if (micro_batch.last && grad_.embedding_norm_weight) {
        sum_over_rows(grad_.embedding_norm_weight, grad_.embedding_norm_bias);
    }
    after_backward(micro_batch, spec::embedding_unit);
}

void GptChunk::final_backward(const Pass& pass) {
    if (!part_.head) {
        device::ResidualNormBackward join{.dropout = dropout_before(pass, part_.n_layers())};
        join.dsum_in = pass.act.final_residual;  // here the gradient of what it was
        return residual_norm_backward(pass, join);
    }
    residual_norm_backward(pass, {.dy = pass.act.dfinal,
                                  .sum = pass.act.final_residual,
                                  .weight = weight_.final_norm_weight,
                                  .mean = pass.act.final_norm_mean,
                                  .rstd = pass.act.final_norm_rstd,
                                  .dropout = dropout_before(pass, part_.n_layers()),
                                  .dweight = grad_.final_norm_weight,
                                  .dbias = grad_.final_norm_bias});
}

// Completes what all residual joins share: the gradient of the stream is updated in place, the
// branch's gradient is the stream's own unless dropout lay between them.
void GptChunk::residual_norm_backward(const Pass& pass, device::ResidualNormBackward args) {
    args.norm = norm_of(config_.normalization);
    if (!args.dsum) args.dsum = shared_.dresidual;
    args.dbranch = args.dropout.on() ? shared_.dbranch : View{};
    device::residual_norm_backward(pass.context, args);
}

// Gradients that operations only ever add to start a step at zero; the others are overwritten.
void GptChunk::zero_accumulated(const Pass& pass) {
    const auto zero = [&pass](const View& view) {
        if (view) device::fill(pass.context, {.x = view, .value = 0});
    };
    if (part_.embedding) {
        // A head with the same table has overwritten it.
        if (!part_.head || grad_.head.data != grad_.word.data) zero(grad_.word);
        zero(grad_.position);
        zero(grad_.embedding_norm_weight);
        zero(grad_.embedding_norm_bias);
    }
    for (const LayerParams& g : grad_.layers) {
        zero(g.attention_norm_weight);
        zero(g.attention_norm_bias);
        zero(g.mlp_norm_weight);
        zero(g.mlp_norm_bias);
    }
    if (!part_.head) return;
    zero(grad_.final_norm_weight);
    zero(grad_.final_norm_bias);
}

// Activations, gradients of norms, and the numbers of each row of logits.
void GptChunk::warm_up() const {
    if (!tensor_.several()) return;
    comm::Group& group = tensor_.group();
    const auto sum = comm::Reduction::sum;
    if (tensor_.cuts_rows()) {
        const View own = tensor_.own_rows(shared_.gathered);
        group.warm_up_all_gather(own, shared_.gathered);
        group.warm_up_reduce_scatter(shared_.gathered, own, sum);
        if (!grad_.layers.empty()) {
            group.warm_up_all_reduce(grad_.layers.front().attention_norm_weight, sum);
        }
    } else {
        group.warm_up_all_reduce(shared_.branch, sum);
    }
    if (!shared_.row_stats) return;
    const i64 rows = shared_.row_stats[1];
    group.warm_up_all_reduce(shared_.row_stats.flat().rows(0, rows), comm::Reduction::max);
    group.warm_up_all_reduce(shared_.row_stats.flat().rows(0, 2 * rows), sum);
}

// Norms see this rank's rows alone when rows are cut.
void GptChunk::sum_over_rows(const View& weight, const View& bias) {
    if (!tensor_.cuts_rows()) return;
    tensor_.all_sum(weight);
    if (bias) tensor_.all_sum(bias);
}

}  // namespace lm::model
