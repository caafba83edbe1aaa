// SPDX-License-Identifier: Apache-2.0
// What a training step on GPUs takes by arithmetic, so that layouts can be compared: products at a
// given rate, the pipeline's bubble, and communication at given bandwidths. Not a measurement.
#pragma once

#include "spec/rank_layout.hpp"

namespace lm::cost {

// Of one GPU. The bandwidths are one way; the defaults are those of the DGX A100 nodes of arXiv
// 2104.04473, section 5: NVLink 3 and one HDR InfiniBand link for each GPU.
struct GpuNode {
    double flops_per_s = 0;  // of matrix products, in training
    i64 n_gpus = 8;
    double node_bytes_per_s = 300e9;
    double network_bytes_per_s = 25e9;
};

struct StepBatch {
    i64 micro_batch = 1;
    i64 n_micro_batches = 1;  // of a step and a pipeline
    i64 seq_length = 0;
    i64 element_bytes = 2;  // of activations and weights
};

struct StepTime {
    double compute_s = 0;  // all micro-batches on the slowest stage, recomputation too
    double tensor_s = 0;   // all-reduces of tensor parallelism beside it
    double bubble_s = 0;   // waiting for the pipeline to fill and drain
    double data_s = 0;     // gradients, and with ZeRO-1 weights, over replicas
    double total() const { return compute_s + tensor_s + bubble_s + data_s; }
};

StepTime step_time(const spec::ModelConfig& model, const spec::ParallelConfig& parallel,
                   const StepBatch& batch, const GpuNode& gpu);

}  // namespace lm::cost
