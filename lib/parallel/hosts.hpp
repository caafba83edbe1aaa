// SPDX-License-Identifier: Apache-2.0
// Which ranks share a machine.
#pragma once

#include "comm/group.hpp"

namespace lm::parallel {

// The cores that this rank may use, shared equally with the ranks of its host that may use the same
// ones: its own where the launcher has bound it. Collective.
i64 cores_of_rank(comm::Group& world);

// How many ranks run on this rank's host. Collective.
i64 ranks_on_host(comm::Group& world);

// How many ranks before this one run on its host. Collective.
i64 place_on_host(comm::Group& world);

}  // namespace lm::parallel
