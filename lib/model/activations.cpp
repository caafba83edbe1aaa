// SPDX-License-Identifier: Apache-2.0
#include "model/activations.hpp"

#include "base/error.hpp"

namespace lm::model {
namespace {

// The name of an activation in the memory plan, and the member of `Owner` to which its view is
// assigned.
template <typename Owner>
struct Field {
    const char* name;
    View& (*view)(Owner&);  // [...] of any dtype: the shape and dtype of the memory plan
};

#define FIELD(name, member)                                     \
    {                                                           \
        name, [](auto& owner) -> View& { return owner.member; } \
    }

constexpr Field<Scratch> scratch_fields[] = {
    FIELD("step_sums", step_sums),
    FIELD("branch", branch),
    FIELD("residual_mid", middle),
    FIELD("gathered", gathered),
    FIELD("dresidual", dresidual),
    FIELD("dbranch", dbranch),
    FIELD("dnorm", dnorm),
    FIELD("dattention", dattention),
    FIELD("dqkv", dqkv),
    FIELD("qk_products", dsquares),
    FIELD("rotary_angles", rotary_angles),
    FIELD("query_scales", query_scales),
    FIELD("alibi_slopes", alibi_slopes),
    FIELD("dmlp", dmlp),
    FIELD("dgated", dgated),
    FIELD("logits", logits),
    FIELD("row_stats", row_stats),
};

constexpr Field<MicroBatchActivations> micro_batch_fields[] = {
    FIELD("tokens", inputs.tokens),
    FIELD("positions", inputs.positions),
    FIELD("token_order", inputs.token_order),
    FIELD("position_order", inputs.position_order),
    FIELD("targets", inputs.targets),
    FIELD("loss_mask", inputs.loss_mask),
    FIELD("doc_start", inputs.doc_start),
    FIELD("sample_ids", inputs.sample_ids),
    FIELD("embedding", embedding.words),
    FIELD("embedding_norm_mean", embedding.mean),
    FIELD("embedding_norm_rstd", embedding.rstd),
    FIELD("final_residual", final_norm.stream),
    FIELD("final_norm", final_norm.y),
    FIELD("final_norm_mean", final_norm.mean),
    FIELD("final_norm_rstd", final_norm.rstd),
    FIELD("losses", head.losses),
    FIELD("dfinal", head.dx),
};

constexpr Field<LayerActivations> layer_fields[] = {
    FIELD("residual", attention_norm.stream),
    FIELD("attention_norm", attention_norm.y),
    FIELD("attention_norm_mean", attention_norm.mean),
    FIELD("attention_norm_rstd", attention_norm.rstd),
    FIELD("qkv_projected", attention.projected),
    FIELD("qk_squares", attention.squares),
    FIELD("qkv", attention.qkv),
    FIELD("attention", attention.out),
    FIELD("attention_lse", attention.lse),
    FIELD("attention_branch", attention_output_norm.stream),
    FIELD("attention_output_norm_mean", attention_output_norm.mean),
    FIELD("attention_output_norm_rstd", attention_output_norm.rstd),
    FIELD("residual_mid", middle),
    FIELD("mlp_norm", mlp_norm.y),
    FIELD("mlp_norm_mean", mlp_norm.mean),
    FIELD("mlp_norm_rstd", mlp_norm.rstd),
    FIELD("mlp_up", mlp.up),
    FIELD("mlp_activation", mlp.activated),
    FIELD("mlp_branch", mlp_output_norm.stream),
    FIELD("mlp_output_norm_mean", mlp_output_norm.mean),
    FIELD("mlp_output_norm_rstd", mlp_output_norm.rstd),
};

#undef FIELD

// Returns the member of `owner` for the activation `name`, [...] of any dtype.
template <typename Fields, typename Owner>
View& view_named(const Fields& fields, std::string_view name, Owner& owner) {
    for (const auto& field : fields) {
        if (name == field.name) return field.view(owner);
    }
    bug(__FILE__, __LINE__,
        "activation '{}' of the memory plan: expected a View for it in lib/model, got none", name);
}

// Returns element `index` of a list that grows as needed.
template <typename List>
auto& element(List& list, i64 index) {
    const auto at = static_cast<size_t>(index);
    if (list.size() <= at) list.resize(at + 1);
    return list[at];
}

// Sets the stream that the norm before the MLP reads. Layers with a parallel residual have no
// memory of their own for `middle`.
void connect_mlp(LayerActivations& layer, const Scratch& scratch) {
    const bool parallel = !layer.middle;
    if (parallel) layer.middle = scratch.middle;
    layer.mlp_norm.stream = parallel ? layer.attention_norm.stream : layer.middle;
    // Without a norm of its own, the MLP of such a layer reads attention's.
    if (parallel && !layer.mlp_norm.y) layer.mlp_norm.y = layer.attention_norm.y;
}

}  // namespace

std::vector<ChunkActivations> bind_activations(const cost::ActivationPlan& plan,
                                               const device::Buffer& buffer) {
    Scratch scratch;
    std::vector<ChunkActivations> chunks;
    for (const cost::PlacedActivation& placed : plan.placed) {
        const View view = buffer.view(placed.offset, placed.dtype, placed.shape);
        if (placed.chunk < 0) {
            view_named(scratch_fields, placed.name, scratch) = view;
            continue;
        }
        MicroBatchActivations& slot = element(element(chunks, placed.chunk).slots, placed.slot);
        if (placed.layer < 0) {
            view_named(micro_batch_fields, placed.name, slot) = view;
        } else {
            view_named(layer_fields, placed.name, element(slot.layers, placed.layer)) = view;
        }
    }
    for (ChunkActivations& chunk : chunks) {
        chunk.scratch = scratch;
        for (MicroBatchActivations& slot : chunk.slots) {
            for (LayerActivations& layer : slot.layers) connect_mlp(layer, scratch);
        }
    }
    return chunks;
}

}  // namespace lm::model
