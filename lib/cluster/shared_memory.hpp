// SPDX-License-Identifier: Apache-2.0
// Shared memory of this host: how full its file system is, which segments lie in it (POSIX) or
// beside it (System V), and which processes hold them. Works without privileges; what it cannot see
// it calls unknown.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cluster/processes.hpp"

namespace lm::cluster {

struct FilesystemUse {
    i64 size = 0;  // bytes
    i64 used = 0;
    i64 available = 0;
    i64 inodes = 0;  // 0: without limit
    i64 inodes_used = 0;
    double use() const {
        return size > 0 ? static_cast<double>(used) / static_cast<double>(size) : 0;
    }
    double inode_use() const {
        return inodes > 0 ? static_cast<double>(inodes_used) / static_cast<double>(inodes) : 0;
    }
};
// Throws Error(failure) when `path` cannot be examined.
FilesystemUse filesystem_use(const std::string& path);

// live: a process has it open or mapped, whether we can name it or not; dead: none has; idle: a
// System V segment nobody is attached to, whose creator lives; unknown: another user's segment
// without an owner that we may see.
enum class SegmentState { live, idle, dead, unknown };
std::string_view name_of(SegmentState state);

struct Segment {
    bool system_v = false;
    std::string name;  // path of a POSIX segment, "sysv:ID" of a System V segment
    i64 id = -1;       // of a System V segment
    FileId file;       // of a POSIX segment
    bool deleted = false;
    i64 bytes = 0;  // that it occupies
    i64 uid = 0;
    i64 changed = 0;  // Unix time of the last change (POSIX) or of creation (System V)
    SegmentState state = SegmentState::unknown;
    std::vector<Process> owners;  // as far as visible; of an idle System V segment its creator
    i64 creator = 0;              // pid that made a System V segment
};

struct SharedMemory {
    FilesystemUse use;
    std::vector<Segment> segments;  // largest first
};

// `directory` is the mount point of the file system, normally /dev/shm.
SharedMemory read_shared_memory(const std::string& directory);

// The System V segments of /proc/sysvipc/shm, without owners and state.
std::vector<Segment> parse_system_v(std::string_view text);

// Removes a dead segment. Looks again first: false, with the reason, when it is no longer dead or
// was changed less than `min_age_s` ago (its user may be about to open it), or when the system
// refuses.
struct Removal {
    bool removed = false;
    std::string reason;
};
Removal remove_if_dead(const std::string& directory, const Segment& segment, i64 min_age_s);

}  // namespace lm::cluster
