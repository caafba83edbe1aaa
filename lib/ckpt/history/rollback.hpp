// SPDX-License-Identifier: Apache-2.0
// Makes an earlier step the one that a run loads. The steps after it become an abandoned branch:
//
//     claim a generation that starts from the step   a running training is superseded
//     replace `latest`                               the step is the tip of the current branch
//     rename later steps to DIR/abandoned-gN         they are kept, and no run loads them
//
// A crash after the second line leaves later steps under their names; they are not on the branch of
// `latest`, so no run loads them either.
#pragma once

#include <string>
#include <vector>

#include "ckpt/history/generation.hpp"

namespace lm::ckpt {

// Returns the numbers of the steps that a rollback to `step` sets aside: all later ones, complete
// or not.
std::vector<i64> later_steps(const std::string& directory, i64 step);

struct Rollback {
    Generation generation;
    std::vector<std::string> set_aside;  // new paths of the later steps
};

// Makes step number `step` of `directory` the one that a run loads, in the order above. Throws
// DamageError unless that step is complete.
Rollback roll_back(const std::string& directory, i64 step);

}  // namespace lm::ckpt
