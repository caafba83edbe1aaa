// SPDX-License-Identifier: Apache-2.0
// Counts the hosts of a list in the form of Slurm.
#pragma once

#include <string_view>

#include "base/types.hpp"

namespace lm::metrics {

// Returns the number of hosts in a list: 6 for "n[001-004,7],login1"; 0 when the list is not
// valid.
i64 count_hosts(std::string_view list);

}  // namespace lm::metrics
