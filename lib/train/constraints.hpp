// SPDX-License-Identifier: Apache-2.0
// Which batches and rank counts go together: everything about them that does not fit, each with the
// nearest values that would work. Arithmetic only; the cut of the model itself is config/'s.
#pragma once

#include <string>
#include <vector>

#include "config/rank_counts.hpp"
#include "optim/batch_ramp.hpp"

namespace lm::train {

using config::Ranks;
using config::replicas_of;
using config::started_replicas;

// "--flag: what does not fit: what would": the full batch, and the batches of the ramp.
std::vector<std::string> batch_problems(const optim::BatchRamp& ramp, i64 micro_batch,
                                        const Ranks& ranks);

}  // namespace lm::train
