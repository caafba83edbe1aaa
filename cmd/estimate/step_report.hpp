// SPDX-License-Identifier: Apache-2.0
// The figures of one simulated training step: its time, where the time goes, and the memory of the
// fullest GPU.
#pragma once

#include <optional>

#include "cost/memory.hpp"
#include "cost/step_time.hpp"
#include "figures.hpp"
#include "gpu_options.hpp"
#include "run_flags.hpp"

namespace lm::estimate {

// The training step to simulate.
struct StepQuery {
    spec::ModelConfig model;
    spec::ParallelConfig parallel;
    spec::Precision precision;
    bool assumes_fp16 = false;  // neither --bf16 nor --fp16 is given
    spec::GpuAttention attention = spec::GpuAttention::flash;
    i64 micro_batch = 1;
    i64 global_batch = 1;
    i64 n_micro_batches = 1;  // of the global batch, in one pipeline
    cost::NcclUse nccl;
    i64 allowance_bytes = cost::cuda_allowance_bytes;  // in addition to buffers and NCCL
    bool is_megatron = false;
    bool assumes_megatron = false;  // --trainer is not given
    cost::Hardware gpu;
    cost::TrainingProgram trainer;
};

// Returns the time of a step of `batch` samples, with at least one micro-batch.
cost::StepTime simulate(const StepQuery& query, i64 batch,
                        std::vector<cost::PipelineEvent>* events = nullptr);

// Returns the operations of the model for a token, from which MFU is computed.
Figure model_flops_figure(const spec::ModelConfig& model);
// Returns the figures of the step with the full batch. Warns when its memory does not fit.
std::vector<Figure> step_figures(const StepQuery& query, const cost::StepTime& time);
// Returns the parts of the step's time, each with what limits it. The last figure is the sum of the
// parts.
std::vector<Figure> step_parts(const StepQuery& query, const cost::StepTime& time);

}  // namespace lm::estimate
