// SPDX-License-Identifier: Apache-2.0
// --node: compares the hosts of a job.
#pragma once

#include <string>
#include <vector>

#include "cluster/node_outliers.hpp"

namespace lm::shmcheck {

// Returns tables of the state, the speeds and the GPUs of the hosts, then a line for each finding,
// then the line "--exclude=HOSTS" or "no outliers".
std::string nodes_text(const std::vector<cluster::NodeSample>& samples,
                       const std::vector<cluster::NodeFinding>& findings);
// Returns a JSON line for each host, with its findings. If there are findings about the whole job,
// adds a line with them.
std::string nodes_json(const std::vector<cluster::NodeSample>& samples,
                       const std::vector<cluster::NodeFinding>& findings);

// Measures the hosts of the job that started this process, or this host alone. Rank 0 prints.
// Returns the exit code. Collective.
int check_nodes(const std::vector<std::string>& directories, bool json);

}  // namespace lm::shmcheck
