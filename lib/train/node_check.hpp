// SPDX-License-Identifier: Apache-2.0
// Measures all hosts of a job at once: one rank of each host samples its host
// (cluster/node_sample.hpp), then pairs of hosts measure the network.
#pragma once

#include <string>
#include <vector>

#include "cluster/node_sample.hpp"
#include "comm/group.hpp"

namespace lm::train {

// Returns the samples of all hosts, in the order of their first ranks, on rank 0; nothing on the
// other ranks. `own_tflops`: the speeds of the GPUs that this rank has measured, in their order.
// Collective.
std::vector<cluster::NodeSample> sample_nodes(comm::Group& world,
                                              const std::vector<std::string>& directories,
                                              const std::vector<double>& own_tflops);

// Warns of hosts that differ from the others of the job, on rank 0. Takes about a second, at
// most 5. Arguments as above. Collective.
void warn_of_outliers(comm::Group& world, const std::vector<std::string>& directories,
                      const std::vector<double>& own_tflops);

}  // namespace lm::train
