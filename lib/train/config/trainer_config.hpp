// SPDX-License-Identifier: Apache-2.0
// The configuration of a trainer (model, layout, precision, optimizer) and the memory that it
// needs.
#pragma once

#include "config/data_flags.hpp"
#include "cost/memory.hpp"
#include "cost/nccl.hpp"
#include "optim/loss_scaler.hpp"
#include "optim/optimizer.hpp"
#include "parallel/data_parallel.hpp"

namespace lm::train {

struct TrainerConfig {
    spec::ModelConfig model;
    spec::ParallelConfig parallel;
    spec::DataParallelConfig data_parallel;
    i64 micro_batch = 1;
    // The largest number of micro-batches that a data-parallel rank computes in a step. The memory
    // plan needs it, because a pipeline keeps several micro-batches in flight.
    i64 n_micro_batches = i64{1} << 30;
    spec::Precision precision;
    spec::LossScaleConfig loss_scale;  // used with fp16 only
    spec::AdamWConfig adamw;
    u64 seed = 0;
    config::DocumentFlags documents;  // these flags determine which optional fields a batch has
    int n_threads = 1;
    bool cuda = false;           // the device is a GPU
    bool deterministic = false;  // every run on the same GPUs computes the same bits
    spec::GpuAttention attention = spec::GpuAttention::flash;  // attention kernels on a GPU
    bool allow_tf32 = false;
    // The largest number of bytes of host memory that an asynchronous save may use for its copy of
    // the rank's part of the state. 0: saves are synchronous.
    i64 save_buffer = 0;
    std::string autotune;  // directory of measured GEMM algorithms; empty: no measuring
    // The number of SMs that tensor-parallel collectives may occupy. GEMMs that overlap with these
    // collectives do not use these SMs. 0: no limit.
    i64 tensor_comm_sms = 0;

    // Returns the number of micro-batches of a global batch on each data-parallel rank.
    i64 micro_batches_of(i64 global_batch) const {
        return global_batch / (micro_batch * parallel.dp);
    }
    // Returns true if the inputs of attention contain the first visible key of each query.
    bool has_document_starts() const {
        return documents.reset_attention_mask || documents.inter_document_masking ||
               spec::windows(model) != std::vector<i64>{0};
    }
    cost::Processor processor() const { return {n_threads, cuda, attention}; }
    cost::NcclUse nccl_use() const {
        return {.overlap = data_parallel.overlaps(),
                .tensor_comm_sms = tensor_comm_sms,
                .nvls = !deterministic};
    }
};

// Returns the memory that a trainer of this configuration allocates on the device of tensor rank
// `tp_rank` of stage `pp_rank`.
cost::MemoryPlan memory_plan(const TrainerConfig& config, i64 tp_rank = 0, i64 pp_rank = 0);

}  // namespace lm::train
