// SPDX-License-Identifier: Apache-2.0
// A rollback: makes a run load an earlier step. The steps after that step become an abandoned
// branch. The left column lists the actions, the right column their effects:
//
//     claim a generation that starts from the step   a running training is superseded
//     replace `latest`                               the step is the tip of the current branch
//     rename later steps to DIR/abandoned-gN         they are kept, and no run loads them
//
// A crash after the second action leaves later steps under their names; these steps are not on the
// branch of `latest`, so no run loads them either.
#pragma once

#include <string>
#include <vector>

#include "ckpt/history/generation.hpp"

namespace lm::ckpt {

// Returns the numbers of the steps that a rollback to `step` sets aside: all later steps, also
// incomplete steps.
std::vector<i64> later_steps(const std::string& directory, i64 step);

struct Rollback {
    Generation generation;
    std::vector<std::string> set_aside;  // new paths of the later steps
};

// Carries out the actions of the table above, so that a run loads step number `step` of
// `directory`. Throws DamageError unless that step is complete.
Rollback roll_back(const std::string& directory, i64 step);

}  // namespace lm::ckpt
