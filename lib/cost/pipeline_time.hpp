// SPDX-License-Identifier: Apache-2.0
// The time of a step under a pipeline schedule.
#pragma once

#include "spec/pipeline_schedule.hpp"

namespace lm::cost {

// The duration of each pass of a chunk on one micro-batch, and of a message between two stages.
struct PipelineDurations {
    double forward_s = 1;
    double backward_s = 2;
    double message_s = 0;
};

// Returns the time of a step with these durations. Messages overlap with computation.
double pipeline_time(const spec::PipelineShape& shape, const PipelineDurations& durations);

// Returns the pipeline bubble, idle time divided by busy time: (p - 1) / (m * v) with p stages, m
// micro-batches and v chunks on each stage (arXiv 2104.04473, section 2.2.2).
double pipeline_bubble(const spec::PipelineShape& shape);

}  // namespace lm::cost
