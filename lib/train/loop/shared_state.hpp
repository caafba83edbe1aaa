// SPDX-License-Identifier: Apache-2.0
// The state after an iteration as all ranks see it.
#pragma once

#include "comm/group.hpp"
#include "train/loop/loop_rules.hpp"

namespace lm::train {

// Combines the `own` states of all ranks: a flag is true if it is true on any rank; a time is the
// largest of all ranks. `done`, `run_iterations` and `finished` are the same on all ranks already.
// Collective.
LoopState shared_state(comm::Group& world, const LoopState& own);

}  // namespace lm::train
