// SPDX-License-Identifier: Apache-2.0
// What ranks tell about themselves when one that waits in vain asks them, and how that is told.
#pragma once

#include <string>
#include <vector>

#include "base/types.hpp"

namespace lm::comm {

struct RankStatus {
    int rank = 0;  // among all
    bool answered = false;
    i64 n_started = -1;  // collectives that it has started in the group in question; -1: not in it
    std::string host;    // empty: not known
    std::string where;   // what it does
};

// "all_reduce(sum, 100 x fp32), operation 3: rank 2 of 4 did not come within 60 s; rank 2 on n1 is
// in save of step 400 for 61 s". `number` is that of the collective; -1: a message.
std::string timeout_text(const std::string& operation, i64 number,
                         const std::vector<RankStatus>& statuses, int n_ranks, double waited_s);

}  // namespace lm::comm
