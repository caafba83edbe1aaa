// SPDX-License-Identifier: Apache-2.0
// Trains a small model for some steps on rank threads in any layout, and gives what all ranks
// together hold in the end.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "support/odd_models.hpp"
#include "train/trainer.hpp"

namespace lm::test {

struct Training {
    train::TrainerConfig trainer;
    i64 global_batch = 16;
    i64 first_sample = 0;
    int n_steps = 10;
    double lr = 1e-3;
    // Called on every rank at the start and behind every step.
    std::function<void(train::Trainer&)> prepare;
    std::function<void(train::Trainer&, int step)> after_step;
};

struct Outcome {
    std::vector<double> losses, norms;  // -1 where not finite
    std::vector<double> scales;         // of the loss, behind each step
    std::vector<bool> updated;
    double validation = 0;
    // By tensor name and kind of state, in the global shape; of 16-bit weights the masters.
    std::map<std::string, std::vector<float>> weights, exp_avg;
};

Outcome train_on_ranks(const Training& training);

// The norm of the difference of all weights but key biases, whose gradient is zero by the
// invariance of softmax and whose steps are rounding noise.
double weight_distance(const std::map<std::string, std::vector<float>>& a,
                       const std::map<std::string, std::vector<float>>& b);

}  // namespace lm::test
