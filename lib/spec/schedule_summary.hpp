// SPDX-License-Identifier: Apache-2.0
// A summary of a schedule for the plan that is printed before the first step: the stages of the
// batch ramp, and the learning rate at its key points.
#pragma once

#include <string>
#include <vector>

#include "spec/schedule.hpp"

namespace lm::spec {

// The rate of the iteration after `done`; the log line of done.iteration prints it.
struct RatePoint {
    std::string what;  // "end of the warm-up"
    Counters done;
    double rate = 0;
};
// Returns the rates at the start, the end of the warm-up, the middle and the end of the decay, and
// the end of the training, in this order. Points that the training does not reach are omitted, and
// points with the same counters as the previous point.
std::vector<RatePoint> key_rates(const Schedule& schedule);

// Returns a line for each stage of the ramp, such as "iterations 1 to 4961: batch 16, from sample
// 0"; no line without a ramp.
std::vector<std::string> describe_ramp(const Schedule& schedule);

// Returns the number of validations that Megatron computes in advance for a whole training:
// iterations / eval_interval + 1. Megatron's order of the validation samples depends on this
// number.
i64 megatron_validations(const Schedule& schedule, i64 eval_interval);

}  // namespace lm::spec
