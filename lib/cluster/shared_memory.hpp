// SPDX-License-Identifier: Apache-2.0
// The shared memory of this host: the use of its file system, its segments, and the processes that
// hold them. A POSIX segment is a file in that file system; a System V segment is a kernel object.
// Works without privileges, but then a segment whose holders are not visible may be `unknown`.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/named.hpp"
#include "cluster/processes.hpp"
#include "io/filesystem_use.hpp"

namespace lm::cluster {

// live: a process, visible or not, has the segment open or mapped.
// dead: a killed program left it. No process has the segment open or mapped; the creator of a
// System V segment has ended; a file has the name that a library gives to its segments
// (segment_names.hpp), with the id of a process that has ended.
// idle: a System V segment without attached processes, whose creator is alive.
// unused: a file that no process has open or mapped, with another name. A user may keep it there: a
// step of --local-save, a staged dataset. A program may open a segment again whose name has no
// process id: Python's SharedMemory lasts after close().
// unknown: no holder is visible, but this process cannot see all processes that may hold it.
enum class SegmentState { live, idle, dead, unused, unknown };
inline constexpr std::array segment_states{
    Named{SegmentState::live, "live"}, Named{SegmentState::idle, "idle"},
    Named{SegmentState::dead, "dead"}, Named{SegmentState::unused, "unused"},
    Named{SegmentState::unknown, "unknown"}};

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
    i64 creator = 0;              // pid of the process that created it; 0: not known
};

struct SharedMemory {
    io::FilesystemUse use;
    std::vector<Segment> segments;  // largest first
};

// Reads the file system mounted at `directory` (normally /dev/shm) and all System V segments.
// Throws Error(failure) when `directory` cannot be read.
SharedMemory read_shared_memory(const std::string& directory);

// A line of /proc/sysvipc/shm.
struct SystemVLine {
    Segment segment;  // without owners and state
    i64 n_attached = 0;
};
// Returns the lines in the text of /proc/sysvipc/shm, except those that are not segments.
std::vector<SystemVLine> parse_system_v(std::string_view text);

// Which segments a user asks for. A default value selects all segments.
struct SegmentSelection {
    std::optional<std::string> name;  // glob(7) of the path below `directory`, or "sysv:ID"
    std::optional<i64> uid;
    i64 min_bytes = 0;
    std::optional<i64> older_s;  // seconds since the last change
};
bool selects(const SegmentSelection& selection, const std::string& directory,
             const Segment& segment);

// Returns whether a segment may be removed: it is dead, or it is unused and the selection has a
// name, or an age and the segment is that of a library that writes no process id into its names.
// Files of a checkpoint step are never removable.
bool is_removable(const SegmentSelection& selection, const std::string& directory,
                  const Segment& segment);

struct Removal {
    bool removed = false;
    std::string reason;  // why the segment was kept; empty when it was removed
};
inline constexpr i64 default_min_age_s = 60;
// Removes a segment of read_shared_memory() if it is still removable: the kernel is asked again
// about its holders and its last change. Keeps a segment that changed less than `selection.older_s`
// ago, by default `default_min_age_s`, because a process may be about to open it.
Removal remove_segment(const std::string& directory, const Segment& segment,
                       const SegmentSelection& selection);

}  // namespace lm::cluster
