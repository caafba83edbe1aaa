// SPDX-License-Identifier: Apache-2.0
// The division of a model over ranks: tensor, pipeline and data parallelism. Also the activations
// that backward recomputes.
#pragma once

#include <array>
#include <string>

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
// The names in the manifest, of which --pp-partition-method has the first two and the last.
inline constexpr std::array pipeline_balances{
    Named{PipelineBalance::layers, "uniform"},
    Named{PipelineBalance::layers_and_embedding, "type:transformer|embedding"},
    Named{PipelineBalance::embedding_and_layers, "account-for-embedding"},
    Named{PipelineBalance::layers_and_head, "account-for-loss"},
    Named{PipelineBalance::parameters, "parameters"}};

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
    // Returns the number of ranks of all dimensions. Throws Error(usage) when it overflows.
    i64 n_ranks() const;
    // Returns the number of ranks that hold the model once: all dimensions but data parallelism.
    i64 ranks_per_replica() const;
};

// The place of a rank in each dimension.
struct Coordinates {
    i64 tp = 0;
    i64 pp = 0;
    i64 dp = 0;
    friend bool operator==(const Coordinates&, const Coordinates&) = default;
};

// A dimension over which ranks are divided. Numbering of ranks, groups, plan, JSON and manifest
// derive from the table, so that a new dimension is a row here, its member of Grid
// (parallel/grid.hpp), its flag, and the code that divides by it.
struct Dimension {
    const char* name;   // of its groups and in the plan
    const char* label;  // before its size in short texts: tp2
    const char* key;    // of its size in JSON and in manifests
    i64 ParallelConfig::*size;
    i64 Coordinates::*at;
    int nesting;  // 0: changes fastest from rank to rank
};
// In the order of manifests. Ranks are numbered as in Megatron: the tensor rank changes fastest,
// so that a tensor group has consecutive ranks, which are usually on one node.
inline constexpr std::array dimensions{
    Dimension{"tensor", "tp", "tensor_model_parallel_size", &ParallelConfig::tp, &Coordinates::tp,
              0},
    Dimension{"pipeline", "pp", "pipeline_model_parallel_size", &ParallelConfig::pp,
              &Coordinates::pp, 2},
    Dimension{"data", "dp", "data_parallel_size", &ParallelConfig::dp, &Coordinates::dp, 1}};

// Returns the dimension whose size is the member `size`, which must be in the table.
const Dimension& dimension_of(i64 ParallelConfig::*size);

Coordinates coordinates_of(const ParallelConfig& parallel, i64 rank);
i64 rank_of(const ParallelConfig& parallel, const Coordinates& at);

// Returns "2 tensor x 4 pipeline x 1 data", and of one replica "2 tensor x 4 pipeline".
std::string sizes_text(const ParallelConfig& parallel);
std::string replica_text(const ParallelConfig& parallel);
// Returns "tp2 pp4 dp1".
std::string short_sizes_text(const ParallelConfig& parallel);

// Returns the number of rows of the padded word embedding, over all tensor ranks. Throws
// Error(usage) when --pad-vocab-size-to is below the vocabulary or not a multiple of tp.
//
// Why the vocabulary is padded to a multiple of 128 * tp: each tensor rank has the same number of
// rows, so all ranks make the same products and collectives, and this number is a multiple of the
// tiles of matrix products, of which the head's is the largest of the model. GPT-2's 50,257 rows
// would leave a remainder on every rank. The rule is Megatron's, so that its memory and speed
// compare. The padding exists in memory only: no token selects its rows, the softmax leaves them
// out (unless --softmax-over-padding is given), and checkpoints do not store them, so that every tp
// loads every checkpoint.
i64 padded_vocab(const ModelConfig& config, const ParallelConfig& parallel);

}  // namespace lm::spec
