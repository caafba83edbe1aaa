// SPDX-License-Identifier: Apache-2.0
// How the layers of a model are shared out over the parts of a pipeline.
#include <algorithm>

#include "base/error.hpp"
#include "spec/layout.hpp"

namespace lm::spec {
namespace {

// First layers of all parts, and one past the last.
using Cuts = std::vector<i64>;

// `n_units` units of one weight, as even as can be: the layers among them begin at `first_layer`.
Cuts even_cuts(i64 n_layers, i64 n_units, i64 first_layer, i64 n_parts) {
    Cuts cuts;
    for (i64 part = 0; part <= n_parts; ++part) {
        cuts.push_back(std::clamp<i64>(n_units * part / n_parts - first_layer, 0, n_layers));
    }
    return cuts;
}

// Fills parts with layers up to the weight `most`, each with at least one and leaving one for each
// part to come; the embedding weighs on the first, the head on the last. Empty: they do not fit.
Cuts fill_parts(i64 n_layers, i64 n_parts, double layer, double embedding, double head,
                double most) {
    Cuts cuts{0};
    for (i64 part = 0; part < n_parts; ++part) {
        const i64 after = n_parts - 1 - part;
        const double other = (part == 0 ? embedding : 0.0) + (after == 0 ? head : 0.0);
        const i64 left = n_layers - cuts.back() - after;  // most that this part may take
        const i64 n =
            after == 0 ? left : std::clamp<i64>(static_cast<i64>((most - other) / layer), 1, left);
        if (static_cast<double>(n) * layer + other > most) return {};
        cuts.push_back(cuts.back() + n);
    }
    return cuts;
}

// The heaviest part as light as can be; layers are alike, so its weight is one of few values.
Cuts balanced_cuts(i64 n_layers, i64 n_parts, double layer, double embedding, double head) {
    std::vector<double> bounds;
    for (i64 n = 1; n <= n_layers; ++n) {
        const double layers = static_cast<double>(n) * layer;
        bounds.insert(bounds.end(), {layers, layers + embedding, layers + head});
    }
    bounds.push_back(static_cast<double>(n_layers) * layer + embedding + head);
    std::ranges::sort(bounds);
    const double slack = 1.0 + 1e-12;
    const auto bound = std::ranges::partition_point(bounds, [&](double most) {
        return fill_parts(n_layers, n_parts, layer, embedding, head, most * slack).empty();
    });
    return fill_parts(n_layers, n_parts, layer, embedding, head, *bound * slack);
}

Cuts cuts_of(const ModelConfig& config, const ParallelConfig& parallel) {
    const i64 n_layers = config.n_layers;
    const i64 n_parts = parallel.n_parts();
    if (parallel.balance == PipelineBalance::layers) {
        return even_cuts(n_layers, n_layers, 0, n_parts);
    }
    if (parallel.balance == PipelineBalance::layers_and_embedding) {
        return even_cuts(n_layers, n_layers + 2, 1, n_parts);
    }
    const ParameterCount count = count_parameters(config);
    const double head = static_cast<double>(
        config.untied_head ? count.head : checked_mul(config.vocab_size, config.hidden));
    const double layers = static_cast<double>(count.attention + count.mlp + count.norm);
    return balanced_cuts(n_layers, n_parts, layers / static_cast<double>(n_layers),
                         static_cast<double>(count.embedding), head);
}

}  // namespace

i64 first_layer(const ModelConfig& config, const ParallelConfig& parallel, i64 part) {
    if (parallel.n_parts() > config.n_layers) {
        usage_error("--pipeline-model-parallel-size", "{} parts are more than --num-layers {}",
                    parallel.n_parts(), config.n_layers);
    }
    const Cuts cuts = cuts_of(config, parallel);
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
        if (cuts[i] < cuts[i + 1]) continue;
        usage_error("--pipeline-model-parallel-size",
                    "part {} of {} would hold no layer of {}: use fewer stages, or another "
                    "--pp-partition-method",
                    i, parallel.n_parts(), config.n_layers);
    }
    return cuts[static_cast<size_t>(part)];
}

}  // namespace lm::spec
