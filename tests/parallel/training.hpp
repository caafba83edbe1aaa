// SPDX-License-Identifier: Apache-2.0
// Trains a small model for some steps on rank threads in any layout, and gives what all ranks
// together hold in the end.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "train/trainer.hpp"

namespace lm::test {

// An odd model: nothing divides anything. Dropout is on.
spec::ModelConfig odd_model();

struct Training {
    train::TrainerConfig trainer;
    i64 global_batch = 16;
    int n_steps = 10;
    double lr = 1e-3;
    // Called on every rank at the start and behind every step.
    std::function<void(train::Trainer&)> prepare;
    std::function<void(train::Trainer&, int step)> after_step;
};

struct Outcome {
    std::vector<double> losses, norms;
    double validation = 0;
    // By tensor name and kind of state, in the global shape.
    std::map<std::string, std::vector<float>> weights, exp_avg;
};

Outcome train_on_ranks(const Training& training);

// The norm of the difference of all weights but key biases, whose gradient is zero by the
// invariance of softmax and whose steps are rounding noise.
double weight_distance(const std::map<std::string, std::vector<float>>& a,
                       const std::map<std::string, std::vector<float>>& b);

}  // namespace lm::test
