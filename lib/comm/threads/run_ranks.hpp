// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of one process: the whole matrix of layouts runs in a unit test, under
// sanitizers and debuggers. Operations that do not match between the ranks are always found.
//
// A send always waits for its receive, so that an exchange which would deadlock with large messages
// deadlocks (and is reported after the timeout) with small ones too. A rank whose body has ended
// while others wait for it is reported at once.
#pragma once

#include <functional>

#include "comm/group.hpp"
#include "comm/threads/virtual_time.hpp"

namespace lm::comm {

struct ThreadsOptions {
    double timeout_s = 60;
};

// Runs body(world) on `n_ranks` threads and returns when all have ended. The first exception of a
// rank aborts the others and is rethrown here.
//
// A body that throws while operations are under way must keep their memory until it has called
// abort(): others may be copying from it.
void run_ranks(int n_ranks, const std::function<void(Group& world)>& body,
               const ThreadsOptions& options = {});

// As run_ranks; options.timeout_s is real time. Clocks begin at 0.
void run_ranks_in_virtual_time(int n_ranks, const LinkModel& links,
                               const std::function<void(Group& world, VirtualClock& clock)>& body,
                               const ThreadsOptions& options = {});

}  // namespace lm::comm
