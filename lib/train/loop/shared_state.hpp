// SPDX-License-Identifier: Apache-2.0
// Combines the loop states of all ranks, so that all ranks make equal decisions.
#pragma once

#include "comm/group.hpp"
#include "train/loop/loop_rules.hpp"

namespace lm::train {

// Returns the combination of the `own` states of all ranks. A flag is true if it is true on any
// rank. A time is the largest of all ranks. `done`, `run_iterations` and `finished` are already
// equal on all ranks, and are copied from `own`. Collective.
LoopState shared_state(comm::Group& world, const LoopState& own);

}  // namespace lm::train
