// SPDX-License-Identifier: Apache-2.0
// The division of a model's layers over the chunks of pipeline stages.
#pragma once

#include <vector>

#include "spec/parallel_config.hpp"

namespace lm::spec {

// A model is a sequence of units: unit 0 is the embedding, unit 1 + l is layer l, and unit n_layers
// + 1 is the head (final norm and output projection).
constexpr i64 embedding_unit = 0;
constexpr i64 unit_of_layer(i64 layer) {
    return layer + 1;
}
inline i64 head_unit(const ModelConfig& config) {
    return config.n_layers + 1;
}

// Returns the first layer of the chunk with index `part` among the chunks of all stages (see
// ModelPart), 0 <= part <= n_parts(). Returns n_layers for part = n_parts(). Throws Error(usage)
// when a chunk would have no layer. When the embedding counts as a layer (ParallelConfig::balance),
// the first chunk may have only the embedding. When the head counts as a layer, the last chunk may
// have only the head.
i64 first_layer(const ModelConfig& config, const ParallelConfig& parallel, i64 part);

// Returns the number of layers that ParallelConfig::balance divides, including the embedding and
// the head when they count as layers.
i64 counted_layers(const ModelConfig& config, const ParallelConfig& parallel);

// The weights of a model's units, for balanced_stages().
struct UnitWeights {
    std::vector<double> before;  // of the layers before each layer, then of all layers
    double embedding = 0;
    double head = 0;
};

// Returns the first layer of each stage, followed by the number of layers, for the division whose
// heaviest stage is as light as possible. Each stage gets at least `least` layers. The weight of
// the first stage includes the embedding, the weight of the last stage the head. If `least` exceeds
// 1, all layers must have the same weight.
std::vector<i64> balanced_stages(const UnitWeights& weights, i64 n_stages, i64 least);

// The adjacent units that one chunk of a pipeline stage computes. Chunk v of stage p is part
// v * pp + p (interleaved schedule: arXiv 2104.04473, section 2.2).
struct ModelPart {
    i64 first_layer = 0;
    i64 end_layer = 0;  // one past the last layer
    bool embedding = false;
    bool head = false;
    i64 n_layers() const { return end_layer - first_layer; }
};
ModelPart model_part(const ModelConfig& config, const ParallelConfig& parallel, i64 pp_rank,
                     i64 chunk = 0);

// Returns the parts of all stages: element v * pp + p is chunk v of stage p.
std::vector<ModelPart> model_parts(const ModelConfig& config, const ParallelConfig& parallel);
// Returns the parts of one stage, in the order of its chunks.
std::vector<ModelPart> stage_parts(const ModelConfig& config, const ParallelConfig& parallel,
                                   i64 pp_rank);
// Returns the parts of one stage, selected from `all`, the result of model_parts().
std::vector<ModelPart> stage_parts(const std::vector<ModelPart>& all,
                                   const ParallelConfig& parallel, i64 pp_rank);

// Returns the number of layers of all chunks of a stage.
i64 stage_layers(const ModelConfig& config, const ParallelConfig& parallel, i64 pp_rank);

}  // namespace lm::spec
