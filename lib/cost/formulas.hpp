// SPDX-License-Identifier: Apache-2.0
// What a model costs: the field's formulas for parameters, operations, checkpoints and time, beside
// the exact counts of the tensor table. Sources stand with each formula.
#pragma once

#include "spec/numerics.hpp"
#include "spec/rank_layout.hpp"

namespace lm::cost {

// L(12h^2 + 13h) + Vh + sh + 2h: exact for GPT-2's shape. Position rows (s) are left out when there
// is no position table, 2h is added for a normalized embedding (BLOOM's form). Other shapes
// (gated MLP, grouped queries, other ffn) it does not know: compare with count_parameters.
// Source: BigScience tr1-13B and tr8-104B READMEs.
double bigscience_parameters(const spec::ModelConfig& config);

// 12Lh^2 (1 + 13/(12h) + (V+s)/(12Lh)), V the padded vocabulary. Source: arXiv 2104.04473, eq. 2.
double megatron_parameters(const spec::ModelConfig& config, i64 padded_vocab);

// Elements of the tensors that one rank holds: vocabulary padded, without alignment gaps. What
// Megatron prints as "number of parameters on (tensor, pipeline) model parallel rank".
i64 rank_parameters(const spec::ModelConfig& config, const spec::ParallelConfig& parallel,
                    i64 tp_rank, i64 pp_rank);

// Bytes of a checkpoint's tensors, vocabulary unpadded; files' headers (about 100 bytes a tensor)
// come on top.
struct CheckpointSize {
    i64 weights = 0;
    i64 optimizer = 0;  // fp32 masters of 16-bit weights, and two Adam moments
    i64 total() const { return weights + optimizer; }
};
CheckpointSize checkpoint_size(const spec::ModelConfig& config, const spec::Precision& precision);

// Operations of one iteration, forward and backward: 24BsLh^2 k (1 + s/6h + V/16Lh) with k = 3, or
// 4 when the forward pass is computed twice; 32 instead of 24 for a gated MLP. Sources: arXiv
// 2104.04473, eq. 3; Megatron-DeepSpeed's log line.
double iteration_flops(const spec::ModelConfig& config, i64 padded_vocab, i64 global_batch,
                       i64 seq_length, bool recompute);

// Seconds of a training by 6 (recompute: 8) operations per parameter and token.
double training_seconds(double n_parameters, double n_tokens, double n_gpus, double tflops_per_gpu,
                        bool recompute);

}  // namespace lm::cost
