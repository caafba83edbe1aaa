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

// Returns on rank 0 the samples of all hosts, in the order of the hosts' first ranks; on other
// ranks an empty list. `directories`: cluster::sample_node() writes a test file to each.
// `own_tflops`: the speeds that this rank has measured, by GPU, in 1e12 operations/s. Collective.
std::vector<cluster::NodeSample> sample_nodes(comm::Group& world,
                                              const std::vector<std::string>& directories,
                                              const std::vector<double>& own_tflops);

// Returns on member 0 the samples of all members, in the order of the members; on other members an
// empty list. Adds the clock skew and the network speed to each sample; without the network speed
// if all messages pass through rank 0. `hosts` has one member for each host. `own`: the sample of
// this host. Each member exchanges O(log(n)) messages to measure the network and to gather the
// samples, and gathers the clocks of all n members. Collective.
std::vector<cluster::NodeSample> exchange_samples(comm::Group& hosts, cluster::NodeSample own);

// Returns the directories to which a check of the hosts writes. Replaces a path that is not an
// existing directory by its nearest existing parent, and drops empty paths and duplicates.
std::vector<std::string> existing_directories(const std::vector<std::string>& paths);

// On rank 0, warns of hosts that differ from the other hosts of the job. Takes about 1 s, at most 5
// s. Has the same arguments as sample_nodes(). Collective.
void warn_of_outliers(comm::Group& world, const std::vector<std::string>& directories,
                      const std::vector<double>& own_tflops);

}  // namespace lm::train
