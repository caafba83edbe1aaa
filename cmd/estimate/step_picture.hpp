// SPDX-License-Identifier: Apache-2.0
// The picture of lm-estimate time: the work of each pipeline stage from the start to the end of one
// step, and the parts of the step's time.
#pragma once

#include "cost/step_time.hpp"
#include "picture.hpp"

namespace lm::estimate {

// A simulated step.
struct StepPicture {
    std::vector<cost::PipelineEvent> events;  // the passes
    cost::StepTime time;
    std::vector<Figure> parts;  // the result of step_parts()
    i64 n_stages = 1;
};

// Returns the picture. Its time axis ends at time.total(). After the pipeline, all stages reduce
// gradients, compute the optimizer and gather weights at the same time.
Picture step_picture(const StepPicture& step);

}  // namespace lm::estimate
