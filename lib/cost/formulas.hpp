// SPDX-License-Identifier: Apache-2.0
// Published formulas for parameters, operations, checkpoints and training time. The exact counts
// are in the tensor table. Each formula names its source.
#pragma once

#include "spec/numerics.hpp"
#include "spec/rank_layout.hpp"

namespace lm::cost {

// Letters in the formulas: L layers, h hidden size, V vocabulary size, s sequence length or
// rows of the position embedding matrix, B samples of the global batch.
//
// Returns L(12h^2 + 13h) + Vh + sh + 2h, which is exact for GPT-2's shape. Without a position
// embedding matrix s is 0; a normalized embedding (BLOOM) adds 2h. The formula ignores gated MLPs,
// grouped queries and other MLP widths; count_parameters() is exact for such models. Source:
// BigScience tr1-13B and tr8-104B READMEs.
double bigscience_parameters(const spec::ModelConfig& config);

// Returns 12Lh^2 (1 + 13/(12h) + (V+s)/(12Lh)) with the padded vocabulary size V. Source: arXiv
// 2104.04473, eq. 2.
double megatron_parameters(const spec::ModelConfig& config, i64 padded_vocab);

// Returns the parameters 12 L h^2 of a model with L layers and the best width for this depth, h =
// exp(5.039 + 0.0555 L): 12 L exp(2 * 5.039) exp(2 * 0.0555 L). A model with more parameters should
// have more layers. Source: Levine et al. 2020, "Limits to depth efficiencies of self-attention"
// (arXiv 2006.12467), as in BigScience's notes on shapes.
double parameters_at_depth(i64 n_layers);

// Returns the elements of the tensors of one rank, with padded vocabulary and without alignment
// gaps. Megatron prints this number as "number of parameters on (tensor, pipeline) model parallel
// rank".
i64 rank_parameters(const spec::ModelConfig& config, const spec::ParallelConfig& parallel,
                    i64 tp_rank, i64 pp_rank);

// The bytes of a checkpoint's tensors with unpadded vocabulary. File headers, about 100 bytes for
// each tensor, are not included.
struct CheckpointSize {
    i64 weights = 0;
    i64 optimizer = 0;  // fp32 masters of 16-bit weights, and the optimizer's state
    i64 total() const { return weights + optimizer; }
};
CheckpointSize checkpoint_size(const spec::ModelConfig& config, const spec::Precision& precision);

// Returns the mean number of keys that a query sees under the causal mask; its own key counts as
// half a key: T / 2, or w (1 - w / 2T) with a window of w keys.
double mean_keys(i64 window, double seq_length);

// Returns the floating-point operations of the model for one token, forward and backward, without
// recomputation: three times 2 M N K for each product with a weight and each product of attention.
// Under the causal mask, the products of attention are 6 L H D T in all. The vocabulary is
// unpadded. MFU is computed from this number.
double model_flops_per_token(const spec::ModelConfig& config, i64 seq_length);

// Returns the floating-point operations of one iteration as Megatron-LM's log counts them,
// with 4h for the width of the MLP, as many key-value groups as heads, and no causal mask:
// 24BsLh^2 k (1 + s/6h + V/16Lh). k is 3 + `recomputed`, the share of the layers whose forward
// pass is computed twice (recomputed_share()): 4 with full recomputation. For a gated MLP, 32
// replaces the factor 24. With a window of w keys, w (2 - w/s) replaces the s in the parentheses.
// Sources: arXiv 2104.04473, eq. 3; Megatron-DeepSpeed's log line.
double iteration_flops(const spec::ModelConfig& config, i64 padded_vocab, i64 global_batch,
                       i64 seq_length, double recomputed);

// Returns the seconds of a training, with 6 operations for each parameter and token, and 2 more for
// the share `recomputed` of the layers.
double training_seconds(double n_parameters, double n_tokens, double n_gpus, double tflops_per_gpu,
                        double recomputed);

}  // namespace lm::cost
