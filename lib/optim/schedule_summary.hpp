// SPDX-License-Identifier: Apache-2.0
// What a schedule comes to, for the plan that is printed before the first step: the ramp's stages,
// the learning rate at the points that matter, and everything that will not fit the ranks later.
#pragma once

#include <string>
#include <vector>

#include "optim/schedule.hpp"

namespace lm::optim {

// The rate of the iteration that follows `done`; the log line of done.iteration shows it.
struct RatePoint {
    std::string what;  // "end of the warm-up"
    Counters done;
    double rate = 0;
};
// Start, end of the warm-up, middle and end of the decay, end of the training: those that the
// training reaches, in order.
std::vector<RatePoint> key_rates(const Schedule& schedule);

// One line a stage of the ramp: "iterations 1 to 4961: batch 16, from sample 0"; none without one.
std::vector<std::string> describe_ramp(const Schedule& schedule);

// Samples of all validations of a training, as Megatron counts them beforehand (its orders hang on
// the number): one for each interval begun.
i64 megatron_validation_samples(const Schedule& schedule, i64 eval_interval, i64 eval_iters);

}  // namespace lm::optim
