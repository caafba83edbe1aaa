// SPDX-License-Identifier: Apache-2.0
// Summarizes the lines that lm-shmcheck --json prints on many hosts: one line for each finding,
// with the hosts that share it, instead of one line for each host.
#pragma once

#include <istream>
#include <string>

namespace lm::cluster {

struct HostSummary {
    std::string text;
    bool healthy = true;    // no host exceeds a threshold
    bool has_dead = false;  // some host has dead segments
};

// Summarizes JSON lines of the kinds "host" (lm-shmcheck) and "node" (lm-shmcheck --node); skips
// other kinds. The last line of each host counts. Throws Error(failure) naming a line that is not
// JSON of lm-shmcheck, or when no line is of a host.
HostSummary summarize_hosts(std::istream& json_lines);

}  // namespace lm::cluster
