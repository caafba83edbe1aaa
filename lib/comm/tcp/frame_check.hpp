// SPDX-License-Identifier: Apache-2.0
// The check of each frame that the hub receives from a rank that has joined. The hub calls it
// before it stores any byte that follows the frame, so that no other code of the hub sees a number
// of a group, member, rank, type or size that is out of range.
#pragma once

#include <string>
#include <vector>

#include "comm/tcp/frame.hpp"

namespace lm::comm {

// Returns the largest Operation::n for which no frame exceeds max_frame_bytes.
i64 max_elements(const Operation& operation, int n_members);

// Returns why the hub must refuse a frame; an empty text if the frame is valid. `sender`: the rank
// of the connection. `n_ranks`: number of ranks of the job. `members`: the world ranks of group
// frame.group; nullptr when there is no such group.
std::string problem_of(const Frame& frame, int sender, int n_ranks,
                       const std::vector<int>* members);

}  // namespace lm::comm
