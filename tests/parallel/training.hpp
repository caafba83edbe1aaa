// SPDX-License-Identifier: Apache-2.0
// Trains a small model for some steps in any layout, with ranks as threads, and returns the final
// state of all ranks as whole tensors.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "support/odd_models.hpp"
#include "train/step/trainer.hpp"

namespace lm::test {

struct Training {
    train::TrainerConfig trainer;
    i64 global_batch = 16;
    i64 first_sample = 0;
    int n_steps = 10;
    double lr = 1e-3;
    // Called on every rank: at the start, between the gradients of a step and its update, and after
    // every step.
    std::function<void(train::Trainer&)> prepare;
    std::function<void(train::Trainer&, train::StepResult&)> before_update;
    std::function<void(train::Trainer&, int step)> after_step;
};

struct Outcome {
    std::vector<double> losses, norms;  // -1 where not finite
    std::vector<double> scales;         // loss scale after each step
    std::vector<bool> updated;
    double validation = 0;
    // By tensor name, in the global shape. With 16-bit weights `weights` has the masters.
    std::map<std::string, std::vector<float>> weights, exp_avg, exp_avg_sq;
};

// Trains; throws when ranks disagree on losses or an element is held by none or two of them.
Outcome train_on_ranks(const Training& training);

// Saves the state of a trainer as step `iteration` of `directory`, from nodes of two ranks.
// Collective.
void save_step(train::Trainer& trainer, const train::TrainerConfig& config,
               const std::string& directory, i64 iteration);

// Returns the norm of the difference of all weights except key biases: softmax is invariant to
// those, so their gradient is rounding noise.
double weight_distance(const std::map<std::string, std::vector<float>>& a,
                       const std::map<std::string, std::vector<float>>& b);

}  // namespace lm::test
