// SPDX-License-Identifier: Apache-2.0
// The memory of StepGuard: the properties of earlier steps from which StepGuard judges the next
// step. A checkpoint contains this memory, so that a resumed run judges each step as the
// interrupted run would have judged it.
#pragma once

#include <string>

#include "io/json_fwd.hpp"
#include "train/step/spike_detector.hpp"

namespace lm::train {

struct GuardMemory {
    SpikeDetector spikes;
    bool in_spike = false;        // the last step with finite values was a spike
    i64 overflows_in_a_row = 0;   // number of steps in a row that an fp16 overflow dropped
    i64 non_finite_in_a_row = 0;  // number of other steps in a row that were not finite
};

io::OrderedJson to_json(const GuardMemory& memory);
// `path`: the file that contains `object`. Throws Error(failure) naming the file.
GuardMemory guard_memory_from(const io::Json& object, const std::string& path);

}  // namespace lm::train
