// SPDX-License-Identifier: Apache-2.0
// A fault that tests plant in a training step. In lm-train, the environment variable LM_STEP_FAULT
// sets the fault in the form KIND:VALUE:ITERATION:RANK:LAYER, for example "gradient:nan:7:0:1".
// KIND is activation, gradient or loss. VALUE is nan, inf or a number. In the loss, the number
// becomes the mean loss of the micro-batches so far. With ":once" appended, the fault is transient,
// so a repeated step does not have it. --error-injection-rate plants faults in random steps.
#pragma once

#include <optional>
#include <string>

#include "base/types.hpp"
#include "config/loop_flags.hpp"
#include "spec/parallel_config.hpp"

namespace lm::train {

struct StepFault {
    enum class Kind { activation, gradient, loss };
    Kind kind = Kind::loss;
    double value = 0;
    i64 iteration = 0;
    i64 rank = 0;
    i64 layer = 0;  // index among all layers, from 0; unused for the loss
    bool once = false;
};

// Parses LM_STEP_FAULT. Throws Error(usage).
StepFault parse_step_fault(const std::string& text);
// Returns the fault that LM_STEP_FAULT sets for the rank; nullopt: none.
std::optional<StepFault> armed_step_fault(i64 rank);

// Returns the fault that --error-injection-rate plants in the loss of the rank in this iteration;
// nullopt: none. The result depends on the arguments only, so a resumed run has the same faults.
std::optional<StepFault> injected_fault(const config::StoppingFlags& flags, u64 seed, i64 iteration,
                                        const spec::ParallelConfig& parallel, i64 rank);

}  // namespace lm::train
