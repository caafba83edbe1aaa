// SPDX-License-Identifier: Apache-2.0
// The status that a rank sends when another rank requests it after a timeout, and the report on the
// timeout.
#pragma once

#include <string>
#include <vector>

#include "base/types.hpp"

namespace lm::comm {

struct RankStatus {
    int rank = 0;  // global rank
    bool answered = false;
    i64 n_started = -1;  // collectives that the rank has started in the group; -1: not a member, or
                         // not known
    std::string host;    // empty: not known
    std::string where;   // FlightRecorder::where(), which another process reads when the rank does
                         // not answer
    std::string device;  // empty: not known, or a CPU
};

// Returns "all_reduce(sum, 100 x fp32), operation 3: timed out after 60 s waiting for rank 2 of 4;
// rank 2 on n1 is in save of step 400 for 61 s". For a rank that does not answer, the text is "rank
// 2 on n1 does not answer, its recorder shows save of step 400 for 61 s". `number` is the number of
// the collective; -1: a message. `statuses` are the answers of the asked members. The text lists
// the members that have not started the operation, beginning with the members that do not answer.
std::string timeout_text(const std::string& operation, i64 number, std::vector<RankStatus> statuses,
                         int n_ranks, double waited_s);

// Returns how long member `member` of a group waits for an operation before it asks the other
// members for their status: `timeout_s` and a delay. Members begin to ask 0.05 s apart, and all
// within 10 s, so that a large job is not flooded with questions.
double time_until_asking(double timeout_s, int member);

}  // namespace lm::comm
