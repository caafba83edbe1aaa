// SPDX-License-Identifier: Apache-2.0
#include "model/activations.hpp"

#include "base/error.hpp"

namespace lm::model {
namespace {

template <typename Owner>
struct Field {
    const char* name;
    View Owner::*field;
};

#define FIELD(name) \
    { #name, &SharedActivations::name }
constexpr Field<SharedActivations> shared_fields[] = {
    FIELD(step_sums), FIELD(branch),  FIELD(gathered),      FIELD(logits),       FIELD(row_stats),
    FIELD(dresidual), FIELD(dbranch), FIELD(dnorm),         FIELD(dmlp),         FIELD(dattention),
    FIELD(dqkv),      FIELD(dgated),  FIELD(rotary_angles), FIELD(alibi_slopes),
};
#undef FIELD

#define FIELD(name) \
    { #name, &MicroBatchActivations::name }
constexpr Field<MicroBatchActivations> micro_batch_fields[] = {
    FIELD(tokens),
    FIELD(positions),
    FIELD(targets),
    FIELD(loss_weight),
    FIELD(doc_start),
    FIELD(sample_ids),
    FIELD(final_residual),
    FIELD(final_norm),
    FIELD(final_norm_mean),
    FIELD(final_norm_rstd),
    FIELD(losses),
    FIELD(dfinal),
    FIELD(embedding),
    FIELD(embedding_norm_mean),
    FIELD(embedding_norm_rstd),
};
#undef FIELD

#define FIELD(name) \
    { #name, &LayerActivations::name }
constexpr Field<LayerActivations> layer_fields[] = {
    FIELD(residual),
    FIELD(attention_norm),
    FIELD(attention_norm_mean),
    FIELD(attention_norm_rstd),
    FIELD(qkv),
    FIELD(attention),
    FIELD(attention_lse),
    FIELD(residual_mid),
    FIELD(mlp_norm),
    FIELD(mlp_norm_mean),
    FIELD(mlp_norm_rstd),
    FIELD(mlp_up),
    FIELD(mlp_activation),
};
#undef FIELD

template <typename Fields>
auto field_named(const Fields& fields, const std::string& name) {
    for (const auto& entry : fields) {
        if (name == entry.name) return entry.field;
    }
    bug(__FILE__, __LINE__, "the activation plan names '" + name + "', the model does not");
}

}  // namespace

std::vector<ChunkActivations> bind_activations(const cost::ActivationPlan& plan,
                                               const device::Buffer& buffer) {
    const auto grown = [](auto& list, i64 index) -> auto& {
        const auto at = static_cast<size_t>(index);
        if (list.size() <= at) list.resize(at + 1);
        return list[at];
    };
    SharedActivations shared;
    std::vector<ChunkActivations> chunks;
    for (const cost::PlacedActivation& placed : plan.placed) {
        const View view = buffer.view(placed.offset, placed.dtype, placed.shape);
        if (placed.chunk < 0) {
            shared.*field_named(shared_fields, placed.name) = view;
            continue;
        }
        MicroBatchActivations& slot = grown(grown(chunks, placed.chunk).slots, placed.slot);
        if (placed.layer < 0) {
            slot.*field_named(micro_batch_fields, placed.name) = view;
        } else {
            grown(slot.layers, placed.layer).*field_named(layer_fields, placed.name) = view;
        }
    }
    for (ChunkActivations& chunk : chunks) chunk.shared = shared;
    return chunks;
}

}  // namespace lm::model
