// SPDX-License-Identifier: Apache-2.0
// Finds the ranks that share this rank's host or cores.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/group.hpp"

namespace lm::parallel {

// Returns the number of cores for this rank: the number of cores in its affinity mask, divided by
// the number of ranks of its host with the same mask, but at least 1. Collective.
i64 cores_of_rank(comm::Group& world);

// Returns the number of ranks on this rank's host. Collective.
i64 ranks_on_host(comm::Group& world);

// Returns the group of the ranks on this rank's host, ordered by rank. Collective.
std::unique_ptr<comm::Group> group_of_host(comm::Group& world);

// Returns the host names of all ranks, ordered by rank; of each name, at most the first 63 bytes.
// Collective.
std::vector<std::string> hosts_of(comm::Group& world);

// Returns the index of this rank among the ranks of its host. Collective.
i64 place_on_host(comm::Group& world);

}  // namespace lm::parallel
