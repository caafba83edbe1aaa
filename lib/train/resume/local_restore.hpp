// SPDX-License-Identifier: Apache-2.0
// Resume from local steps (ckpt/history/local_steps.hpp): copies the newest complete local step to
// --save, where the run then finds it like any other step.
#pragma once

#include <vector>

#include "comm/group.hpp"
#include "train/config/run_config.hpp"

namespace lm::train {

// Finds the newest local step that the hosts of this run hold. If this step is newer than every
// durable step that the run could load, copies it to --save and publishes it. If no host has one of
// its parts undamaged, tries an older local step. Does nothing in a benchmark, without
// --local-save, with --finetune, or if --load and --save differ. Claims a generation of --save for
// each step that it tries. `damaged`: the iterations of durable steps that cannot be loaded; needed
// on rank 0. Returns on all ranks the iteration of the copied step, or -1 when no step was copied.
// Throws JointError when the system cannot read the durable directory or write to it. Collective.
i64 restore_local_step(const RunConfig& config, comm::Group& world,
                       const std::vector<i64>& damaged = {});

}  // namespace lm::train
