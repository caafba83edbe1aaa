// SPDX-License-Identifier: Apache-2.0
// Measures all hosts of a job at once: one rank of each host samples its host
// (cluster/node_sample.hpp), then pairs of hosts measure the network, unless all messages pass
// through rank 0.
#pragma once

#include <string>
#include <vector>

#include "cluster/node_sample.hpp"
#include "comm/group.hpp"

namespace lm::train {

// On rank 0, returns the samples of all hosts in the order of their first ranks; on other ranks an
// empty list. `own_tflops`: the speeds of the GPUs that this rank has measured, by GPU.
// Collective.
std::vector<cluster::NodeSample> sample_nodes(comm::Group& world,
                                              const std::vector<std::string>& directories,
                                              const std::vector<double>& own_tflops);

// Returns the samples of all members, each with its clock skew and network speed, in the order of
// the members, on member 0; an empty list on the other members. `hosts` has one member for each
// host. `own`: the sample of this host. Each member sends and receives O(log(n)) messages to
// measure the network and to gather the samples, and reads n clocks. Collective.
std::vector<cluster::NodeSample> exchange_samples(comm::Group& hosts, cluster::NodeSample own);

// Returns the directories that a check of the hosts writes to: the paths that are not empty, each
// once. A directory that does not exist yet is replaced by its nearest existing parent.
std::vector<std::string> existing_directories(const std::vector<std::string>& paths);

// On rank 0, warns of hosts that differ from the other hosts of the job. Takes about 1 s, at most 5
// s. Has the same arguments as sample_nodes(). Collective.
void warn_of_outliers(comm::Group& world, const std::vector<std::string>& directories,
                      const std::vector<double>& own_tflops);

}  // namespace lm::train
