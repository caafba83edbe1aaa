// SPDX-License-Identifier: Apache-2.0
#include "model/activations.hpp"

#include "base/error.hpp"

namespace lm::model {
namespace {

struct OnceField {
    const char* name;
    View Activations::*field;
};

struct LayerField {
    const char* name;
    View LayerActivations::*field;
};

#define FIELD(name) \
    { #name, &Activations::name }
constexpr OnceField once_fields[] = {
    FIELD(tokens),          FIELD(targets),
    FIELD(positions),       FIELD(doc_start),
    FIELD(loss_weight),     FIELD(sample_ids),
    FIELD(final_residual),  FIELD(final_norm),
    FIELD(final_norm_mean), FIELD(final_norm_rstd),
    FIELD(row_max),         FIELD(row_sum),
    FIELD(target_logit),    FIELD(losses),
    FIELD(dfinal),          FIELD(step_sums),
    FIELD(branch),          FIELD(logits),
    FIELD(dresidual),       FIELD(dbranch),
    FIELD(dnorm),           FIELD(dmlp),
    FIELD(dattention),      FIELD(dqkv),
};
#undef FIELD

#define FIELD(name) \
    { #name, &LayerActivations::name }
constexpr LayerField layer_fields[] = {
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

Activations bind_activations(const spec::ActivationPlan& plan, const device::Buffer& buffer) {
    Activations result;
    for (const spec::PlacedActivation& placed : plan.placed) {
        const View view = buffer.view(placed.offset, placed.dtype, placed.shape);
        if (placed.layer < 0) {
            result.*field_named(once_fields, placed.name) = view;
            continue;
        }
        const auto layer = static_cast<size_t>(placed.layer);
        if (result.layers.size() <= layer) result.layers.resize(layer + 1);
        result.layers[layer].*field_named(layer_fields, placed.name) = view;
    }
    return result;
}

}  // namespace lm::model
