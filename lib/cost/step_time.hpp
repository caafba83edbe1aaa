// SPDX-License-Identifier: Apache-2.0
// Simulates a training step on GPUs: the passes of each stage by a roofline, the pipeline's
// schedule in virtual time, the collectives of data parallelism, and the optimizer.
#pragma once

#include "cost/layer_time.hpp"
#include "cost/pipeline_time.hpp"

namespace lm::cost {

// The seconds of a step. `busiest`: all passes of the busiest stage, for all micro-batches.
struct StepTime {
    PassTime busiest;
    double messages_s = 0;  // messages between stages that the busiest stage waits for
    double bubble_s = 0;    // idle: the pipeline fills or drains, or waits for a slower stage
    double data_s = 0;      // data-parallel communication that computation does not hide
    double optimizer_s = 0;
    // Parts of data_s. The rest of data_s reduces gradients at the end of the pipeline.
    double tied_s = 0;    // the first and the last stage add the gradients of a tied embedding
    double gather_s = 0;  // with ZeRO stage 1, the all-gather of weights after the optimizer
    double reduce_s() const { return data_s - tied_s - gather_s; }
    double pipeline_s() const { return busiest.total() + messages_s + bubble_s; }
    double total() const { return pipeline_s() + data_s + optimizer_s; }
};

// The model, layout and batch of a step. Hardware describes its GPUs, TrainingProgram its trainer.
struct SimulatedStep {
    const spec::ModelConfig& model;
    const spec::ParallelConfig& parallel;
    StepBatch batch;
    spec::OptimizerKind optimizer = spec::OptimizerKind::adam;
    double elements = 0;         // parameters of the largest rank: largest_rank_parameters()
    bool overlaps_data = false;  // gradients are reduced during the last backward pass
};

// Returns the number of parameters of the rank with the most parameters.
double largest_rank_parameters(const spec::ModelConfig& model,
                               const spec::ParallelConfig& parallel);

// Returns the time of a step. Adds the passes of the step to `events`, unless `events` is null.
StepTime step_time(const SimulatedStep& step, const Hardware& gpu, const TrainingProgram& trainer,
                   std::vector<PipelineEvent>* events = nullptr);

// Estimates step_time() without a simulation of the schedule: adds the time of all micro-batches on
// the busiest stage, and the time of one micro-batch on the other stages divided by the number of
// chunks of a stage. The error is at most a few per cent. For long pipelines, quick_step_time() is
// 1000 times as fast as step_time(). search_layouts() sorts its layouts by this estimate.
StepTime quick_step_time(const SimulatedStep& step, const Hardware& gpu,
                         const TrainingProgram& trainer);

}  // namespace lm::cost
