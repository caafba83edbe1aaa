// SPDX-License-Identifier: Apache-2.0
// The time of a whole training at a given throughput: steps of all batch sizes of the ramp,
// evaluations and saves.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "spec/batch_ramp.hpp"
#include "spec/rank_layout.hpp"

namespace lm::cost {

struct TrainingPlan {
    spec::ModelConfig model;
    spec::ParallelConfig parallel;
    spec::BatchRamp ramp;
    i64 micro_batch = 1;
    i64 data_parallel = 1;
    double flops_per_s = 0;  // rate of all GPUs together, including recomputation
    std::function<double(i64 batch)>
        simulated_s;  // seconds of a step of `batch` samples; empty: use flops_per_s
    std::optional<i64> eval_interval;  // iterations; nullopt: no evaluations
    i64 eval_iters = 0;                // batches of one evaluation, all validation sets together
    std::optional<i64> save_interval;  // iterations; nullopt: saves take no time
    double save_s = 0;                 // time that the training stops for one save
};

struct TrainingTime {
    double full_iteration_s = 0;  // one step of the full batch
    double steps_s = 0;
    double evaluations_s = 0;
    double saves_s = 0;
    double running_s() const { return steps_s + evaluations_s + saves_s; }
};

// Returns the number of iterations of `steps`.
i64 n_iterations(const std::vector<spec::RampStep>& steps);

// Returns the time of the iterations `steps` (of ramp_steps()). With flops_per_s, a batch smaller
// than the full batch has a larger pipeline bubble, (PP - 1) / (micro-batches * chunks of a stage).
// An evaluation computes only the forward pass.
TrainingTime training_time(const TrainingPlan& plan, const std::vector<spec::RampStep>& steps);

}  // namespace lm::cost
