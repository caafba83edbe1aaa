// SPDX-License-Identifier: Apache-2.0
// Finds the hosts of a job that are slower than the others, have other limits, or have a directory
// that cannot be used.
#pragma once

#include <string>
#include <vector>

#include "cluster/node_sample.hpp"

namespace lm::cluster {

struct NodeFinding {
    std::string host;  // empty: a problem of all hosts, so no host is an outlier
    std::string text;  // "memory copy 4.2 GiB/s, median 9.8 GiB/s"
};

// Returns the findings in the order of the samples. Compares speeds, clocks, free memory and the
// times of the test files with the median of the samples, limits and GPU counts with the most
// frequent value, and free huge pages with half of the median. Compares clock skew, swap, free
// space, inodes and ECC errors with fixed bounds, and temperature with a bound and the median.
// Compares the SM clock of a GPU only if its GEMM speed was measured, because an idle GPU lowers
// its clock.
std::vector<NodeFinding> find_outliers(const std::vector<NodeSample>& samples);

// Returns the hosts of the findings, sorted, each once.
std::vector<std::string> hosts_of(const std::vector<NodeFinding>& findings);

}  // namespace lm::cluster
