// SPDX-License-Identifier: Apache-2.0
// The limits of this host and process that a training run can reach: locked memory, open files,
// huge pages, control group memory, tmpfs mounts. Also the memory that is still free under these
// limits.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"

namespace lm::cluster {

struct Limit {
    std::string key;   // "memlock_soft"
    std::string what;  // "locked memory, soft"
    bool is_bytes = true;
    std::optional<i64> value;  // nullopt: unlimited
};

// Returns the limits of this host and process. Limits that the system does not report are omitted.
std::vector<Limit> read_limits();

// Returns NUMBER from the line "KEY NUMBER" of a file such as /proc/meminfo or memory.stat; nullopt
// when the file has no such line.
std::optional<i64> keyed_number(const std::string& path, const std::string& key);

// Returns the lowest memory limit, in bytes, of this process's control group and the groups above
// it; nullopt when no group has a limit.
std::optional<i64> cgroup_memory_limit();

// The memory that this process can still allocate before the out-of-memory killer acts: the minimum
// of the host's available memory and the memory that remains under the limit of each control group
// that the process is in.
struct MemoryRoom {
    i64 bytes = 0;
    std::string whose;  // the limit: "available memory of the host", "memory left in the
                        // control group"
};
// Returns the MemoryRoom of this process; nullopt when the system does not report its memory.
std::optional<MemoryRoom> memory_room();
// Returns the address space, in bytes, that this process can still map under `ulimit -v`; nullopt:
// no limit.
std::optional<i64> address_room();

struct Mount {
    std::string path;
    i64 size = 0;  // bytes
    i64 used = 0;  // bytes
};
// Returns the tmpfs mounts of this process's mount namespace, each path once.
std::vector<Mount> tmpfs_mounts();

// The paths of this process's control group, from /proc/self/cgroup: the path of version 2
// ("0::/a"), and the path of the memory controller of version 1 ("4:memory:/a"). A path is empty
// for the root group, and when the file has no such line.
struct CgroupPaths {
    std::string v2;
    std::string v1_memory;
};
CgroupPaths parse_cgroup(std::string_view text);

}  // namespace lm::cluster
