// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of one process: the whole matrix of layouts runs in a unit test, under
// sanitizers and debuggers.
#pragma once

#include <functional>

#include "comm/group.hpp"

namespace lm::comm {

struct ThreadsOptions {
    double timeout_s = 60;
};

// Runs body(world) on `n_ranks` threads and returns when all have ended. The first exception of a
// rank aborts the others and is rethrown here.
void run_ranks(int n_ranks, const std::function<void(Group& world)>& body,
               const ThreadsOptions& options = {});

}  // namespace lm::comm
