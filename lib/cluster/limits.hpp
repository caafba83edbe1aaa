// SPDX-License-Identifier: Apache-2.0
// Limits of this host and process that end trainings: locked memory, open files, huge pages, the
// control group's memory, tmpfs mounts.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"

namespace lm::cluster {

struct Limit {
    std::string key;   // "memlock_soft"
    std::string what;  // for people
    bool is_bytes = true;
    std::optional<i64> value;  // nullopt: unlimited
};

// What the system tells; a limit that it does not know is left out.
std::vector<Limit> read_limits();

// The memory limit of this process's control group or of one above it, the lowest; nullopt: none.
std::optional<i64> cgroup_memory_limit();

// What processes may still take without the out-of-memory killer: the least of the host's available
// memory and of what is left under the limits of the control groups that this process is in.
struct MemoryRoom {
    i64 bytes = 0;
    std::string whose;  // "available memory of the host", "memory left in the control group"
};
// nullopt: the system does not tell.
std::optional<MemoryRoom> memory_room();
// What `ulimit -v` leaves this process of its address space; nullopt: it sets no limit.
std::optional<i64> address_room();

struct Mount {
    std::string path;
    i64 size = 0;
    i64 used = 0;
};
std::vector<Mount> tmpfs_mounts();

// Paths of this process's group in /proc/self/cgroup: version 2 ("0::/a"), else version 1's memory
// controller ("4:memory:/a").
struct CgroupPaths {
    std::string v2;
    std::string v1_memory;
};
CgroupPaths parse_cgroup(std::string_view text);

}  // namespace lm::cluster
