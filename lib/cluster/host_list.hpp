// SPDX-License-Identifier: Apache-2.0
// Lists of hosts in Slurm's syntax.
#pragma once

#include <string>
#include <vector>

namespace lm::cluster {

// Returns the hosts in the syntax of Slurm's node lists, such as "n[003-007,012],login". After
// `max_runs` runs of numbers, the remaining hosts are only counted.
std::string host_list(const std::vector<std::string>& hosts, size_t max_runs = 40);

}  // namespace lm::cluster
