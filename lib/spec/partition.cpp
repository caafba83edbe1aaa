// SPDX-License-Identifier: Apache-2.0
#include "spec/partition.hpp"

#include <algorithm>
#include <vector>

#include "base/error.hpp"
#include "base/shape.hpp"
#include "spec/tensor_table.hpp"

namespace lm::spec {
namespace {

// First layers of all stages or parts, and one past the last.
using Cuts = std::vector<i64>;

// `n` units of one weight, as even as can be.
Cuts even_cuts(i64 n, i64 n_parts) {
    Cuts cuts;
    for (i64 part = 0; part <= n_parts; ++part) cuts.push_back(n * part / n_parts);
    return cuts;
}

// What each stage holds, shared out over its chunks: part chunk * n_stages + stage is chunk `chunk`
// of stage `stage`. Sharing by stage first keeps the stages even where the parts cannot be.
Cuts interleave(const Cuts& stages, i64 n_chunks) {
    Cuts cuts{0};
    for (i64 chunk = 0; chunk < n_chunks; ++chunk) {
        for (size_t stage = 0; stage + 1 < stages.size(); ++stage) {
            const Cuts own = even_cuts(stages[stage + 1] - stages[stage], n_chunks);
            const auto at = static_cast<size_t>(chunk);
            cuts.push_back(cuts.back() + own[at + 1] - own[at]);
        }
    }
    return cuts;
}

struct Weights {
    double layer, embedding, head;
};

// Fills stages with layers up to the weight `most`, each with at least `least` and leaving as many
// for each stage to come; the embedding weighs on the first, the head on the last. Empty: they do
// not fit.
Cuts fill_stages(i64 n_layers, i64 n_stages, i64 least, const Weights& weights, double most) {
    Cuts cuts{0};
    for (i64 stage = 0; stage < n_stages; ++stage) {
        const i64 after = n_stages - 1 - stage;
        const double other =
            (stage == 0 ? weights.embedding : 0.0) + (after == 0 ? weights.head : 0.0);
        const i64 left = n_layers - cuts.back() - after * least;  // most that this stage may take
        const i64 n =
            after == 0 ? left
                       : std::clamp(static_cast<i64>((most - other) / weights.layer), least, left);
        if (static_cast<double>(n) * weights.layer + other > most) return {};
        cuts.push_back(cuts.back() + n);
    }
    return cuts;
}

// The heaviest stage as light as can be; layers are alike, so its weight is one of few values.
Cuts balanced_cuts(i64 n_layers, i64 n_stages, i64 least, const Weights& weights) {
    std::vector<double> bounds;
    for (i64 n = 1; n <= n_layers; ++n) {
        const double layers = static_cast<double>(n) * weights.layer;
        bounds.insert(bounds.end(), {layers, layers + weights.embedding, layers + weights.head});
    }
    bounds.push_back(static_cast<double>(n_layers) * weights.layer + weights.embedding +
                     weights.head);
    std::ranges::sort(bounds);
    const double slack = 1.0 + 1e-12;
    const auto bound = std::ranges::partition_point(bounds, [&](double most) {
        return fill_stages(n_layers, n_stages, least, weights, most * slack).empty();
    });
    return fill_stages(n_layers, n_stages, least, weights, *bound * slack);
}

Weights weights_of(const ModelConfig& config) {
    const ParameterCount count = count_parameters(config);
    const i64 head =
        config.untied_head ? count.head : checked_mul(config.vocab_size, config.hidden);
    const double layers = static_cast<double>(count.attention + count.mlp + count.norm);
    return {layers / static_cast<double>(config.n_layers), static_cast<double>(count.embedding),
            static_cast<double>(head)};
}

Cuts cuts_of(const ModelConfig& config, const ParallelConfig& parallel) {
    const i64 n_layers = config.n_layers;
    if (parallel.balance == PipelineBalance::layers) {
        return interleave(even_cuts(n_layers, parallel.pp), parallel.n_chunks);
    }
    if (parallel.balance == PipelineBalance::layers_and_embedding) {
        // The embedding before the layers and the head behind them are a unit each.
        Cuts cuts = interleave(even_cuts(n_layers + 2, parallel.pp), parallel.n_chunks);
        for (i64& cut : cuts) cut = std::clamp<i64>(cut - 1, 0, n_layers);
        return cuts;
    }
    return interleave(balanced_cuts(n_layers, parallel.pp, parallel.n_chunks, weights_of(config)),
                      parallel.n_chunks);
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

ModelPart model_part(const ModelConfig& config, const ParallelConfig& parallel, i64 pp_rank,
                     i64 chunk) {
    const i64 part = chunk * parallel.pp + pp_rank;
    return {.first_layer = first_layer(config, parallel, part),
            .end_layer = first_layer(config, parallel, part + 1),
            .embedding = part == 0,
            .head = part == parallel.n_parts() - 1};
}

i64 stage_layers(const ModelConfig& config, const ParallelConfig& parallel, i64 pp_rank) {
    i64 n = 0;
    for (i64 chunk = 0; chunk < parallel.n_chunks; ++chunk) {
        n += model_part(config, parallel, pp_rank, chunk).n_layers();
    }
    return n;
}

}  // namespace lm::spec
