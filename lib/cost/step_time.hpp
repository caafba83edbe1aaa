// SPDX-License-Identifier: Apache-2.0
// Estimates the time of a training step on GPUs, to compare layouts: matrix products at a given
// rate, the pipeline's bubble, and communication at given bandwidths. Nothing is measured.
#pragma once

#include "spec/rank_layout.hpp"

namespace lm::cost {

// One GPU of a node. Bandwidths are for one direction. The defaults are the DGX A100 nodes of arXiv
// 2104.04473, section 5: NVLink 3, and one HDR InfiniBand link for each GPU.
struct GpuNode {
    double flops_per_s = 0;  // rate achieved in training
    i64 n_gpus = 8;          // GPUs in a node
    double node_bytes_per_s = 300e9;
    double network_bytes_per_s = 25e9;
};

struct StepBatch {
    i64 micro_batch = 1;
    i64 n_micro_batches = 1;  // micro-batches of a step in one pipeline
    i64 seq_length = 0;
    i64 element_bytes = 2;  // bytes of an element of activations and weights
};

struct StepTime {
    double compute_s = 0;  // all micro-batches on the slowest stage, including recomputation
    double tensor_s = 0;   // communication of tensor parallelism on the slowest stage
    double bubble_s = 0;   // idle while the pipeline fills and drains
    // Data-parallel communication of gradients, with ZeRO stage 1 also of weights.
    double data_s = 0;
    double total() const { return compute_s + tensor_s + bubble_s + data_s; }
};

StepTime step_time(const spec::ModelConfig& model, const spec::ParallelConfig& parallel,
                   const StepBatch& batch, const GpuNode& gpu);

}  // namespace lm::cost
