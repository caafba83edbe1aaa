// SPDX-License-Identifier: Apache-2.0
// The fault layer: every write, fsync, rename and unlink of lib/io passes here. Tests make the k-th
// one fail, come short or kill the process, for every k.
// $LM_IO_FAULT = "fail:K", "short:K" or "kill:K" (K counts from 1) arms it; unset costs one branch.
#pragma once

#include <string_view>

#include "base/types.hpp"

namespace lm::io::fault {

enum class Action { none, fail, short_write, kill };

// Called before an operation; returns what should happen to it. `kill` does not return.
Action next(std::string_view operation, std::string_view path);

i64 operations();                 // how many have passed so far
void arm(Action action, i64 at);  // for tests in the same process; at = 0 disarms

}  // namespace lm::io::fault
