// SPDX-License-Identifier: Apache-2.0
// The training loop around the training step: data, logs, saves, validation and stopping. The pure
// functions of train/loop/loop_rules.hpp decide what the loop does after each iteration. All ranks
// make equal decisions, because loop_state() returns an equal state on all ranks.
#pragma once

#include "base/error.hpp"
#include "train/loop/loop_parts.hpp"
#include "train/resume/refused_iterations.hpp"
#include "train/resume/resume.hpp"

namespace lm::train {

struct LoopEnd {
    Exit code;
    bool advanced;  // the run made a step
};
// Trains until a rule ends the run. Saves, evaluates and logs between iterations. `start`: the
// progress from which the run continues. `evaluation_pending`: result of evaluation_is_pending().
// Collective.
LoopEnd run_loop(const LoopParts& parts, const Progress& start, bool evaluation_pending,
                 RefusedIterations refused);

}  // namespace lm::train
