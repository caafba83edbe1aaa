// SPDX-License-Identifier: Apache-2.0
// The shared memory of this host: the use of its file system, its segments, and the processes that
// hold them. A POSIX segment is a file in that file system; a System V segment is a kernel object.
// Works without privileges, but then a segment whose holders are not visible may be `unknown`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cluster/processes.hpp"
#include "io/filesystem_use.hpp"

namespace lm::cluster {

// live: a process, visible or not, has the segment open or mapped.
// dead: no process has the segment open or mapped, and the creator of a System V segment has ended.
// idle: a System V segment without attached processes, whose creator is alive.
// unknown: no holder is visible, but this process cannot see all processes that may hold it.
enum class SegmentState { live, idle, dead, unknown };
std::string_view name_of(SegmentState state);

struct Segment {
    bool system_v = false;
    std::string name;      // path of a POSIX segment, "sysv:ID" of a System V segment
    i64 id = -1;           // System V only
    FileId file;           // POSIX only
    bool deleted = false;  // POSIX only: unlinked while a process holds it
    i64 bytes = 0;         // allocated memory
    i64 uid = 0;
    i64 changed = 0;  // Unix time of the last change (POSIX) or of creation (System V)
    SegmentState state = SegmentState::unknown;
    std::vector<Process> owners;  // visible holders; for an idle System V segment its creator
    i64 creator = 0;              // pid of the process that created it; System V only
};

struct SharedMemory {
    io::FilesystemUse use;
    std::vector<Segment> segments;  // largest first
};

// Reads the file system mounted at `directory` (normally /dev/shm) and all System V segments.
// Throws Error(failure) when `directory` cannot be read.
SharedMemory read_shared_memory(const std::string& directory);

// Returns the segments in the text of /proc/sysvipc/shm, without their owners and states.
std::vector<Segment> parse_system_v(std::string_view text);

struct Removal {
    bool removed = false;
    std::string reason;  // why the segment was kept; empty when it was removed
};
// Reads the state of a segment again, and removes the segment if it is still dead. Keeps a segment
// that changed less than `min_age_s` ago, because a process may be about to open it.
Removal remove_if_dead(const std::string& directory, const Segment& segment, i64 min_age_s);

}  // namespace lm::cluster
