// SPDX-License-Identifier: Apache-2.0
#include "spec/partition.hpp"

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "base/types.hpp"
#include "spec/tensor_table.hpp"

namespace lm::spec {
namespace {

// The first layer of each stage or part, followed by the number of layers.
using Cuts = std::vector<i64>;

// Divides `n` units into `n_parts` parts whose sizes differ by at most one.
Cuts even_cuts(i64 n, i64 n_parts) {
    Cuts cuts;
    for (i64 part = 0; part <= n_parts; ++part) cuts.push_back(n * part / n_parts);
    return cuts;
}

// Divides the layers of each stage over its chunks. Entry chunk * n_stages + stage of the result is
// the first layer of that chunk. The layers are divided first over the stages, then over the chunks
// of each stage, so the stages are balanced even if the chunks are not.
Cuts interleave(const Cuts& stages, i64 n_chunks) {
    Cuts cuts{0};
    for (i64 chunk = 0; chunk < n_chunks; ++chunk) {
        for (size_t stage = 0; stage + 1 < stages.size(); ++stage) {
            const i64 n = stages[stage + 1] - stages[stage];
            // The size of part `chunk` of even_cuts(n, n_chunks).
            const i64 own = n * (chunk + 1) / n_chunks - n * chunk / n_chunks;
            cuts.push_back(cuts.back() + own);
        }
    }
    return cuts;
}

// Fills the stages in order with layers. Each stage gets at least `least` layers and at most the
// weight `most`. Returns an empty list when the layers do not fit.
Cuts fill_stages(const UnitWeights& weights, i64 n_stages, i64 least, double most) {
    const i64 n_layers = std::ssize(weights.before) - 1;
    Cuts cuts{0};
    for (i64 stage = 0; stage < n_stages; ++stage) {
        const i64 after = n_stages - 1 - stage;
        const double other =
            (stage == 0 ? weights.embedding : 0.0) + (after == 0 ? weights.head : 0.0);
        const double bound = weights.before[static_cast<size_t>(cuts.back())] + most - other;
        const i64 fits =
            std::ranges::upper_bound(weights.before, bound) - weights.before.begin() - 1;
        // The later stages need `least` layers each.
        const i64 end =
            after == 0 ? n_layers : std::clamp(fits, cuts.back() + least, n_layers - after * least);
        if (end > fits) return {};
        cuts.push_back(end);
    }
    return cuts;
}

// Returns the parameters of each unit. The final norm counts as a part of all layers.
UnitWeights weights_of(const ModelConfig& config) {
    UnitWeights weights{.before = std::vector<double>(static_cast<size_t>(config.n_layers) + 1)};
    double final_norm = 0;
    for (const TensorSpec& tensor : tensor_table(config)) {
        const double n = as_double(tensor.shape.numel());
        switch (tensor.place) {
            case Place::embedding:
                weights.embedding += n;
                break;
            case Place::layer:
                weights.before[static_cast<size_t>(tensor.layer) + 1] += n;
                break;
            case Place::head:
                (tensor.vocab_rows ? weights.head : final_norm) += n;
                break;
        }
        if (tensor.tied_head) weights.head += n;
    }
    std::partial_sum(weights.before.begin(), weights.before.end(), weights.before.begin());
    for (i64 layer = 0; layer <= config.n_layers; ++layer) {
        weights.before[static_cast<size_t>(layer)] +=
            final_norm * as_double(layer) / as_double(config.n_layers);
    }
    return weights;
}

// Gives each layer the mean weight of all layers.
void level(UnitWeights& weights) {
    const double all = weights.before.back();
    const i64 n_layers = std::ssize(weights.before) - 1;
    for (i64 layer = 0; layer < n_layers; ++layer) {
        weights.before[static_cast<size_t>(layer)] = all * as_double(layer) / as_double(n_layers);
    }
}

// The ends of the model that count as layers.
struct CountedEnds {
    bool embedding;  // before the first layer
    bool head;       // after the last layer
};
CountedEnds counted_ends(PipelineBalance balance) {
    switch (balance) {
        case PipelineBalance::layers:
        case PipelineBalance::parameters:
            return {.embedding = false, .head = false};
        case PipelineBalance::layers_and_embedding:
            return {.embedding = true, .head = true};
        case PipelineBalance::embedding_and_layers:
            return {.embedding = true, .head = false};
        case PipelineBalance::layers_and_head:
            return {.embedding = false, .head = true};
    }
    __builtin_unreachable();
}

// Gives the first and the last stage their layers, and divides the remaining layers evenly over the
// other stages.
Cuts cuts_with_ends(i64 n_layers, const ParallelConfig& parallel) {
    const i64 first = parallel.first_stage_layers;
    const i64 last = parallel.last_stage_layers;
    const i64 n_others = parallel.pp - (first > 0) - (last > 0);
    Cuts cuts;
    if (first > 0) cuts.push_back(0);
    if (n_others == 0) {
        cuts.push_back(first);
    } else {
        for (const i64 cut : even_cuts(n_layers - first - last, n_others))
            cuts.push_back(first + cut);
    }
    if (last > 0) cuts.push_back(n_layers);
    return cuts;
}

Cuts cuts_of(const ModelConfig& config, const ParallelConfig& parallel) {
    const i64 n_layers = config.n_layers;
    if (parallel.first_stage_layers > 0 || parallel.last_stage_layers > 0) {
        return interleave(cuts_with_ends(n_layers, parallel), parallel.n_chunks);
    }
    switch (parallel.balance) {
        case PipelineBalance::layers:
        case PipelineBalance::layers_and_embedding:
        case PipelineBalance::embedding_and_layers:
        case PipelineBalance::layers_and_head: {
            Cuts cuts = interleave(even_cuts(counted_layers(config, parallel), parallel.pp),
                                   parallel.n_chunks);
            const i64 before = counted_ends(parallel.balance).embedding ? 1 : 0;
            for (i64& cut : cuts) cut = std::clamp<i64>(cut - before, 0, n_layers);
            return cuts;
        }
        case PipelineBalance::parameters: {
            UnitWeights weights = weights_of(config);
            // The chunks of a stage are far apart, so that its layers weigh as much as average
            // ones.
            if (parallel.n_chunks > 1) level(weights);
            return interleave(balanced_stages(weights, parallel.pp, parallel.n_chunks),
                              parallel.n_chunks);
        }
    }
    __builtin_unreachable();
}

// Returns the cuts, and throws Error(usage) as first_layer() does.
Cuts checked_cuts(const ModelConfig& config, const ParallelConfig& parallel) {
    if (parallel.n_parts() > counted_layers(config, parallel)) {
        usage_error(
            "--pipeline-model-parallel-size",
            "{} stages x {} chunks exceed --num-layers {}: use fewer stages or larger chunks",
            parallel.pp, parallel.n_chunks, config.n_layers);
    }
    Cuts cuts = cuts_of(config, parallel);
    const CountedEnds counted = counted_ends(parallel.balance);
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
        const bool end_alone =
            (i == 0 && counted.embedding) || (i + 2 == cuts.size() && counted.head);
        if (cuts[i] < cuts[i + 1] || end_alone) continue;
        usage_error("--pipeline-model-parallel-size",
                    "chunk {}, counted from 0, of the {} chunks of all stages has no layer "
                    "(--num-layers {}): use fewer stages or another --pp-partition-method",
                    i, parallel.n_parts(), config.n_layers);
    }
    return cuts;
}

ModelPart part_between(const Cuts& cuts, i64 part) {
    const auto at = static_cast<size_t>(part);
    return {.first_layer = cuts[at],
            .end_layer = cuts[at + 1],
            .embedding = part == 0,
            .head = at + 2 == cuts.size()};
}

}  // namespace

i64 counted_layers(const ModelConfig& config, const ParallelConfig& parallel) {
    const CountedEnds counted = counted_ends(parallel.balance);
    return config.n_layers + (counted.embedding ? 1 : 0) + (counted.head ? 1 : 0);
}

std::vector<i64> balanced_stages(const UnitWeights& weights, i64 n_stages, i64 least) {
    // Halves the interval of the heaviest stage's weight to the precision of a double.
    double low = 0;
    double high = weights.before.back() + weights.embedding + weights.head;
    for (int i = 0; i < 64; ++i) {
        const double most = (low + high) / 2;
        (fill_stages(weights, n_stages, least, most).empty() ? low : high) = most;
    }
    const double slack = 1.0 + 1e-12;
    return fill_stages(weights, n_stages, least, high * slack);
}

i64 first_layer(const ModelConfig& config, const ParallelConfig& parallel, i64 part) {
    return checked_cuts(config, parallel)[static_cast<size_t>(part)];
}

ModelPart model_part(const ModelConfig& config, const ParallelConfig& parallel, i64 pp_rank,
                     i64 chunk) {
    return part_between(checked_cuts(config, parallel), chunk * parallel.pp + pp_rank);
}

std::vector<ModelPart> model_parts(const ModelConfig& config, const ParallelConfig& parallel) {
    const Cuts cuts = checked_cuts(config, parallel);
    std::vector<ModelPart> parts;
    parts.reserve(cuts.size() - 1);
    for (i64 part = 0; part < parallel.n_parts(); ++part) parts.push_back(part_between(cuts, part));
    return parts;
}

std::vector<ModelPart> stage_parts(const ModelConfig& config, const ParallelConfig& parallel,
                                   i64 pp_rank) {
    return stage_parts(model_parts(config, parallel), parallel, pp_rank);
}

std::vector<ModelPart> stage_parts(const std::vector<ModelPart>& all,
                                   const ParallelConfig& parallel, i64 pp_rank) {
    std::vector<ModelPart> parts;
    for (i64 chunk = 0; chunk < parallel.n_chunks; ++chunk)
        parts.push_back(all[static_cast<size_t>(chunk * parallel.pp + pp_rank)]);
    return parts;
}

i64 stage_layers(const ModelConfig& config, const ParallelConfig& parallel, i64 pp_rank) {
    i64 n = 0;
    for (const ModelPart& part : stage_parts(config, parallel, pp_rank)) n += part.n_layers();
    return n;
}

}  // namespace lm::spec
