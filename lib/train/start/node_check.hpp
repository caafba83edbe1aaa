// SPDX-License-Identifier: Apache-2.0
// Measures all hosts of a job at once: one rank of each host samples its host
// (cluster/node_sample.hpp), then pairs of hosts measure the network, unless all messages pass
// through rank 0.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cluster/node_sample.hpp"
#include "comm/group.hpp"

namespace lm::train {

struct HostSamples {
    std::vector<cluster::NodeSample> all;    // on rank 0, in the order of the hosts' first ranks
    std::optional<cluster::NodeSample> own;  // on the first rank of each host
};
// Returns the samples of all hosts. `directories`: cluster::sample_node() writes a test file to
// each. `own_tflops`: the speeds that this rank has measured, by GPU, in 1e12 operations/s.
// Collective.
HostSamples sample_nodes(comm::Group& world, const std::vector<std::string>& directories,
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

// On rank 0, warns of hosts that differ from the other hosts of the job. Throws JointError(failure)
// with the host when a host cannot write to `save`, one of the `directories`, because all saves of
// the run would fail. Takes about 1 s, at most 5 s. Has the other arguments of sample_nodes().
// Collective.
void check_hosts(comm::Group& world, const std::vector<std::string>& directories,
                 const std::string& save, const std::vector<double>& own_tflops);

}  // namespace lm::train
