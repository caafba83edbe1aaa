// SPDX-License-Identifier: Apache-2.0
// What many hosts have said (--json of each), in a line for each thing that was found instead of
// one for each host.
#pragma once

#include <istream>
#include <string>
#include <vector>

namespace lm::shmcheck {

struct Summary {
    std::string text;
    bool healthy = true;    // all thresholds are kept
    bool has_dead = false;  // segments
};

// Lines of other kinds are left out; of a host that spoke twice the last one counts. Throws
// Error(failure) naming the line that is none of ours.
Summary summary_of(std::istream& json_lines);

// "n[003-007,012],login": as Slurm writes node lists; the rest is counted when there are very many.
std::string host_list(std::vector<std::string> hosts);

}  // namespace lm::shmcheck
