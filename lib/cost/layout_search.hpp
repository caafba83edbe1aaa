// SPDX-License-Identifier: Apache-2.0
// Searches the layouts of a training on N GPUs: TP, PP, DP, micro-batch size and recomputation.
// Keeps those that fit into the memory of the GPUs, with their step times.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "cost/step_time.hpp"
#include "spec/numerics.hpp"

namespace lm::cost {

constexpr i64 max_micro_batch = 64;  // the search tries no larger size unless one is given

// The values that all layouts of a search share, and the restrictions of the search.
struct LayoutQuery {
    spec::ModelConfig model;
    spec::ParallelConfig parallel;  // the search sets tp, pp, dp and recompute
    spec::Precision precision;
    spec::GpuAttention attention = spec::GpuAttention::flash;
    GpuNode gpu;
    i64 n_gpus = 0;                          // GPUs of the whole run
    i64 memory_bytes = 0;                    // memory of one GPU
    i64 allowance_bytes = 0;                 // GPU memory besides buffers and NCCL
    i64 batch = 0;                           // samples of a step
    std::optional<i64> tp, pp, micro_batch;  // nullopt: the search tries all values
    std::vector<spec::Recompute> recomputes;
    bool overlaps = false;  // data parallelism overlaps with computation
};

struct Layout {
    spec::ParallelConfig parallel;
    i64 micro_batch = 1;
    i64 n_micro_batches = 1;  // micro-batches of a step in one pipeline
    i64 bytes = 0;            // memory of the rank that needs most, with NCCL and the allowance
    StepTime time;            // set for layouts that fit
};

struct LayoutSearch {
    // Fastest first; of layouts with the same time, less recomputation, then less memory.
    std::vector<Layout> fitting;
    i64 n_tried = 0;                 // layouts that satisfy the divisibility rules
    std::optional<Layout> smallest;  // the tried layout that needs least memory
};

// Tries every combination of TP, PP and micro-batch size. TP divides the GPUs of a node, the heads,
// the groups, the MLP width and the padding of the vocabulary. PP divides the layers as
// `parallel.balance` counts them. The micro-batch size is at most max_micro_batch and divides the
// batch of a replica. A value that `query` gives is the only one tried; a given PP need not divide
// the layers.
LayoutSearch search_layouts(const LayoutQuery& query);

}  // namespace lm::cost
