// SPDX-License-Identifier: Apache-2.0
// The state after an iteration as all ranks see it.
#pragma once

#include "comm/group.hpp"
#include "train/loop/loop_rules.hpp"

namespace lm::train {

// Returns the same state on all ranks from the `own` state of each: what one rank sees counts, of
// times the largest. `done`, `run_iterations` and `finished` are the same on all ranks already.
// Collective.
LoopState shared_state(comm::Group& world, const LoopState& own);

}  // namespace lm::train
