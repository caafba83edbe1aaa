// SPDX-License-Identifier: Apache-2.0
// The division of a model over ranks: tensor, pipeline and data parallelism. Also the activations
// that backward recomputes.
#pragma once

#include <array>

#include "base/named.hpp"
#include "spec/model.hpp"

namespace lm::spec {

// The activations that backward recomputes (Korthikanti et al. 2022, arXiv 2205.05198). The scores
// and probabilities of attention are always recomputed and never stored. selective: also recomputes
// the outputs of norms and activation functions, which need no matrix product. full: recomputes all
// activations of layers from stored inputs. `uniform` stores the input of each group of `n_layers`
// layers and recomputes the group. `block` recomputes the first `n_layers` layers of each pipeline
// chunk one by one, and no other layer.
struct Recompute {
    enum class Granularity { none, selective, full };
    enum class Method { uniform, block };
    Granularity granularity = Granularity::none;
    Method method = Method::uniform;
    i64 n_layers = 1;
};
inline constexpr std::array recompute_granularities{
    Named{Recompute::Granularity::none, "none"},
    Named{Recompute::Granularity::selective, "selective"},
    Named{Recompute::Granularity::full, "full"}};
inline constexpr std::array recompute_methods{Named{Recompute::Method::uniform, "uniform"},
                                              Named{Recompute::Method::block, "block"}};

// The quantity that is balanced over pipeline stages. layers: transformer layers.
// layers_and_embedding: transformer layers, where embedding and head count as one layer each
// (DeepSpeed's 'type:transformer|embedding'). embedding_and_layers: transformer layers and the
// embedding. layers_and_head: transformer layers and the head. parameters: elements of the tensors.
enum class PipelineBalance {
    layers,
    layers_and_embedding,
    embedding_and_layers,
    layers_and_head,
    parameters
};

struct ParallelConfig {
    i64 tp = 1;  // tensor-parallel ranks
    i64 pp = 1;  // pipeline stages
    i64 dp = 1;  // data-parallel ranks
    // --make-vocab-size-divisible-by: the padded vocabulary size is a multiple of this number times
    // tp.
    i64 vocab_divisible_by = 128;
    i64 pad_vocab_to = 0;            // --pad-vocab-size-to; 0: vocab_divisible_by decides
    bool sequence_parallel = false;  // divide norms and dropout over tensor ranks by rows
    i64 n_chunks = 1;                // chunks of each stage; more than 1: the interleaved schedule
    PipelineBalance balance = PipelineBalance::layers;
    // The number of layers of the first and of the last stage; 0: not given. The other layers are
    // divided evenly over the stages without a given number.
    i64 first_stage_layers = 0;
    i64 last_stage_layers = 0;
    Recompute recompute = {};
    int zero_stage = 0;  // 1: data-parallel ranks divide fp32 masters and moments
    // Returns the number of chunks of all stages together.
    i64 n_parts() const { return pp * n_chunks; }
};

// Returns the number of rows of the padded word embedding, over all tensor ranks. Throws
// Error(usage) when --pad-vocab-size-to is below the vocabulary or not a multiple of tp.
i64 padded_vocab(const ModelConfig& config, const ParallelConfig& parallel);

}  // namespace lm::spec
