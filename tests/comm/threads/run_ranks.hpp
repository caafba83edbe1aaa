// SPDX-License-Identifier: Apache-2.0
// Runs ranks as threads of one process, so that unit tests can run every layout, under sanitizers
// and debuggers. Operations of two ranks that do not match are always detected.
//
// A send always waits for its receive. An exchange that deadlocks on other backends only with large
// messages deadlocks here with small messages, too. The deadlock is reported after the timeout. A
// rank that ends while others wait for it is reported at once.
#pragma once

#include <functional>

#include "comm/group.hpp"
#include "comm/threads/virtual_time.hpp"

namespace lm::comm {

struct ThreadsOptions {
    double timeout_s = 60;
};

// Runs body(world) on `n_ranks` threads and returns when all have ended. After the first exception
// of a rank, the operations of all other ranks throw; this function rethrows that exception.
//
// A body that throws while operations are pending must keep the memory of these operations until it
// has called Group::abort(), because other threads may be copying from it.
void run_ranks(int n_ranks, const std::function<void(Group& world)>& body,
               const ThreadsOptions& options = {});

// Runs ranks as run_ranks() does, but in virtual time (virtual_time.hpp). Clocks begin at 0.
// options.timeout_s counts real time.
void run_ranks_in_virtual_time(int n_ranks, const LinkModel& links,
                               const std::function<void(Group& world, VirtualClock& clock)>& body,
                               const ThreadsOptions& options = {});

}  // namespace lm::comm
