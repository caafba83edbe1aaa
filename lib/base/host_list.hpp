// SPDX-License-Identifier: Apache-2.0
// Lists of hosts in Slurm's syntax.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lm {

// Returns the hosts in the syntax of Slurm's node lists, such as "n[003-007,012],login". Writes at
// most `max_runs` runs of consecutive numbers, then " and N more" for the other hosts.
std::string host_list(const std::vector<std::string>& hosts, size_t max_runs = 40);

// Returns the hosts of a list such as "n[003-007,12],login" in the order of the list; nullopt when
// the list is not valid, has more than 65,536 hosts or a name of more than 253 characters.
std::optional<std::vector<std::string>> expand_hosts(std::string_view list);

}  // namespace lm
