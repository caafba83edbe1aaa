// SPDX-License-Identifier: Apache-2.0
// How a model is divided over ranks: tensor, pipeline and data parallelism, and the activations
// that backward recomputes.
#pragma once

#include "spec/model.hpp"

namespace lm::spec {

// Which activations are made again in backward instead of being kept (arXiv 2205.05198). The scores
// and probabilities of attention never exist whole and are always made again. selective: the
// outputs of norms and activation functions, which cost no matrix product. full: everything between
// the inputs of groups of layers; by `uniform` all layers in groups of `n_layers`, by `block` the
// first `n_layers` layers of each model part one by one, and the others not at all.
struct Recompute {
    enum class Granularity { none, selective, full };
    enum class Method { uniform, block };
    Granularity granularity = Granularity::none;
    Method method = Method::uniform;
    i64 n_layers = 1;
};

// What the parts of a pipeline are balanced by. layers: transformer layers; layers_and_embedding:
// the embedding and the head count as a layer each (DeepSpeed's 'type:transformer|embedding');
// parameters: the elements of each part's tensors.
enum class PipelineBalance { layers, layers_and_embedding, parameters };

struct ParallelConfig {
    i64 tp = 1;                      // tensor
    i64 pp = 1;                      // pipeline
    i64 dp = 1;                      // data
    i64 vocab_divisible_by = 128;    // --make-vocab-size-divisible-by; times tp
    i64 pad_vocab_to = 0;            // --pad-vocab-size-to; 0: by vocab_divisible_by
    bool sequence_parallel = false;  // rows outside of products are cut over tensor ranks
    i64 n_chunks = 1;                // model parts of a pipeline stage; more than 1: interleaved
    PipelineBalance balance = PipelineBalance::layers;
    Recompute recompute = {};
    int zero_stage = 0;  // 1: masters and moments are cut over data ranks
    i64 n_parts() const { return pp * n_chunks; }
};

// Rows of the word table with padding, over all tensor ranks.
i64 padded_vocab(const ModelConfig& config, const ParallelConfig& parallel);

}  // namespace lm::spec
