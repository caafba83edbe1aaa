// SPDX-License-Identifier: Apache-2.0
// The picture of lm-estimate time: the passes of each pipeline stage in one step, and the parts of
// the step's time.
#pragma once

#include "cost/step_time.hpp"
#include "picture.hpp"

namespace lm::estimate {

// Returns the picture of the step. `events`: the passes; `parts`: the result of step_parts().
Picture step_picture(const std::vector<cost::PipelineEvent>& events,
                     const std::vector<Figure>& parts, i64 n_stages);

}  // namespace lm::estimate
