// SPDX-License-Identifier: Apache-2.0
// Summarizes the --json output of many hosts: one line for each finding, with the hosts that share
// it, instead of one line for each host.
#pragma once

#include <istream>
#include <string>
#include <vector>

namespace lm::shmcheck {

struct Summary {
    std::string text;
    bool healthy = true;    // no host exceeds a threshold
    bool has_dead = false;  // some host has dead segments
};

// Summarizes lines of lm-shmcheck --json. Skips lines of other kinds than "host". The last line of
// each host counts. Throws Error(failure) naming a line that is not JSON of lm-shmcheck.
Summary summary_of(std::istream& json_lines);

// Returns the hosts in the syntax of Slurm's node lists, such as "n[003-007,012],login". After 40
// runs of numbers, the remaining hosts are only counted.
std::string host_list(std::vector<std::string> hosts);

}  // namespace lm::shmcheck
