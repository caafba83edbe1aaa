// SPDX-License-Identifier: Apache-2.0
// Searches the layouts of a training on N GPUs: TP, PP, DP, micro-batch size, recomputation, ZeRO
// stage, interleaving and the division of layers over stages. Keeps the fastest layouts that fit
// into the memory of the GPUs.
#pragma once

#include <optional>
#include <vector>

#include "cost/nccl.hpp"
#include "cost/step_time.hpp"
#include "spec/numerics.hpp"

namespace lm::cost {

constexpr i64 max_micro_batch = 64;  // the largest size that the search tries by itself

// The values that all layouts of a search share, and the values that the search tries.
struct LayoutQuery {
    spec::ModelConfig model;
    spec::ParallelConfig parallel;  // the search sets the members that it varies
    spec::Precision precision;
    spec::GpuAttention attention = spec::GpuAttention::flash;
    Hardware gpu;
    TrainingProgram trainer = lm_train;
    // True: a layout needs the memory of Megatron-LM (megatron_memory.hpp), without
    // allowance_bytes.
    bool is_megatron = false;
    i64 n_gpus = 0;                          // GPUs of the whole run
    i64 memory_bytes = 0;                    // memory of one GPU
    i64 allowance_bytes = 0;                 // GPU memory in addition to buffers and NCCL
    i64 batch = 0;                           // samples of a step
    std::optional<i64> tp, pp, micro_batch;  // nullopt: the search tries all values
    std::vector<spec::Recompute> recomputes;
    std::vector<int> zero_stages = {0, 1};
    std::vector<i64> n_chunks = {1};
    std::vector<spec::PipelineBalance> balances = {spec::PipelineBalance::layers};
    NcclUse nccl;
    bool all_variants = false;  // false: one layout for each TP, PP and micro-batch size
    size_t n_wanted = 10;       // layouts in the answer
};

struct Layout {
    spec::ParallelConfig parallel;
    i64 micro_batch = 1;
    i64 n_micro_batches = 1;  // micro-batches of a step in one pipeline
    i64 bytes = 0;  // memory of the rank that needs most; for lm-train with NCCL and the allowance
    StepTime time;
};

struct LayoutSearch {
    // The fastest layouts that fit, fastest first; layouts of equal time by ascending memory.
    std::vector<Layout> fitting;
    std::vector<Layout> rejected;    // at most 3 faster layouts that do not fit, fastest first
    i64 n_tried = 0;                 // layouts that satisfy the divisibility rules
    std::vector<Layout> too_large;   // layouts that do not fit, with times of quick_step_time()
    std::optional<Layout> smallest;  // if none fits: the layout that needs least memory
};

// Tries every combination. TP divides the number of GPUs, the GPUs of a node, the heads, the
// groups, the MLP width and --pad-vocab-size-to. PP is at most the number of layers; layers are
// divided over stages as in lm-train. The micro-batch size is at most max_micro_batch and divides
// the batch of a replica. With interleaving, PP x chunks divides the layers, and PP divides the
// micro-batches. If `query` gives a value, only this value is tried.
LayoutSearch search_layouts(const LayoutQuery& query);

}  // namespace lm::cost
