// SPDX-License-Identifier: Apache-2.0
// The time of a step under a pipeline schedule.
#pragma once

#include <vector>

#include "spec/pipeline_schedule.hpp"

namespace lm::cost {

// The durations of the two passes of a chunk on one micro-batch.
struct PassDurations {
    double forward_s = 1;
    double backward_s = 2;
};

struct PipelineDurations {
    // The durations of each virtual stage; index: chunk * n_stages + stage. A single element is
    // used for all virtual stages.
    std::vector<PassDurations> passes = {{}};
    double message_s = 0;  // a message between two stages; it overlaps with computation
};

// A pass in the virtual time of a step, which starts at 0.
struct PipelineEvent {
    i64 stage = 0;
    i64 chunk = 0;
    i64 micro_batch = 0;
    bool is_forward = true;
    double start_s = 0;
    double end_s = 0;
};

// Returns the time of a step with these durations. Adds the passes of the step to `events`, in the
// order of each stage, unless `events` is null.
double pipeline_time(const spec::PipelineShape& shape, const PipelineDurations& durations,
                     std::vector<PipelineEvent>* events = nullptr);

}  // namespace lm::cost
