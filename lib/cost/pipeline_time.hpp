// SPDX-License-Identifier: Apache-2.0
// The time that a pipeline schedule takes.
#pragma once

#include "spec/pipeline_schedule.hpp"

namespace lm::cost {

// Durations of one chunk's work on one micro-batch, and of a message between two stages.
struct PipelineDurations {
    double forward_s = 1;
    double backward_s = 2;
    double message_s = 0;
};

// The time of a step when compute takes these durations and messages travel while it goes on.
double pipeline_time(const spec::PipelineShape& shape, const PipelineDurations& durations);

// Idle time over busy time by arithmetic: (p - 1) / (m * v), arXiv 2104.04473, section 2.2.2.
double pipeline_bubble(const spec::PipelineShape& shape);

}  // namespace lm::cost
