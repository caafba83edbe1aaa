// SPDX-License-Identifier: Apache-2.0
// Who holds what: the part of every tensor that one rank of a (dp, pp, tp) grid holds, and where it
// lies in the rank's flat parameter buffer. Ranks are numbered as Megatron does, tensor ranks
// fastest. Vocabulary padding lives here and only here: padded rows exist in memory, are zero, are
// masked out of the softmax and never reach a checkpoint.
#pragma once

#include <vector>

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

// A box [start, end) per dimension in a tensor's global, unpadded shape.
struct Box {
    Shape start;
    Shape end;
    Shape shape() const;
    friend bool operator==(const Box&, const Box&) = default;
};

struct LocalTensor {
    i64 index = 0;            // into the tensor table
    Box box;                  // what this rank holds of it
    Shape shape;              // as it lies in memory: the box's shape, vocabulary rows padded
    i64 offset = 0;           // first element in the flat buffer
    i64 unit = 0;             // of the model (below) after whose backward its gradient is complete
    bool replicated = false;  // the same on every tensor rank
    bool copy = false;        // the last stage's copy of a tied embedding
    i64 numel() const { return shape.numel(); }
    i64 end() const { return offset + numel(); }
};

struct RankLayout {
    std::vector<LocalTensor> tensors;  // in table order, ascending offsets
    i64 n_elements = 0;                // of the flat buffer, alignment gaps included
};

// Blocks of adjacent tensors start at multiples of this many elements; gaps hold zeros.
constexpr i64 block_alignment = 32;

RankLayout rank_layout(const ModelConfig& config, const std::vector<TensorSpec>& table,
                       const ParallelConfig& parallel, i64 tp_rank, i64 pp_rank);

// Elements of a rank's flat buffers: the layout's, and so many behind them that the data-parallel
// ranks can share them in equal parts of whole blocks. What is added holds zeros.
i64 flat_elements(const RankLayout& layout, const ParallelConfig& parallel);

// ---- Parts of the model ------------------------------------------------------------------------

// A model is a sequence of units: 0 is the embedding, 1 + l layer l, n_layers + 1 the head (final
// norm and output projection).
constexpr i64 embedding_unit = 0;
constexpr i64 unit_of_layer(i64 layer) {
    return layer + 1;
}
inline i64 head_unit(const ModelConfig& config) {
    return config.n_layers + 1;
}

// The first layer of model part `part` of n_parts() (of part n_parts(): one past the last layer).
// Every part has at least one layer.
i64 first_layer(const ModelConfig& config, const ParallelConfig& parallel, i64 part);

// Adjacent units that one chunk of a pipeline stage computes. Chunk v of stage p is part v * pp + p
// (interleaved schedule: arXiv 2104.04473, section 2.2).
struct ModelPart {
    i64 first_layer = 0;
    i64 end_layer = 0;
    bool embedding = false;
    bool head = false;
    i64 n_layers() const { return end_layer - first_layer; }
};
ModelPart model_part(const ModelConfig& config, const ParallelConfig& parallel, i64 pp_rank,
                     i64 chunk = 0);
// Of all chunks of a stage.
i64 stage_layers(const ModelConfig& config, const ParallelConfig& parallel, i64 pp_rank);

// ---- A tensor rank's share of a layer ----------------------------------------------------------

// Shares may differ by one granule: a key-value group with its heads, a row.
struct TensorShare {
    i64 n_heads = 0;
    i64 n_groups = 0;
    i64 ffn = 0;
    i64 first_head = 0;   // global number of local head 0
    i64 vocab_rows = 0;   // of the word table in memory
    i64 vocab_start = 0;  // global number of row 0
    i64 n_vocab = 0;      // rows that are not padding
};
TensorShare tensor_share(const ModelConfig& config, const ParallelConfig& parallel, i64 tp_rank);

}  // namespace lm::spec
