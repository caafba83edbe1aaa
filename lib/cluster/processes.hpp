// SPDX-License-Identifier: Apache-2.0
// The processes of this host and the files that they have open or mapped, read from /proc
// (proc(5)). Without privileges the files of other users' processes are not visible;
// Process::visible states whether the files of a process are visible.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/types.hpp"

namespace lm::cluster {

struct Process {
    i64 pid = 0;
    i64 uid = 0;
    std::string command;  // short name (/proc/PID/comm)
    bool visible = true;  // false: its mappings could not be read
};

// Identifies a file. /proc/PID/maps and stat() report the same values.
struct FileId {
    u64 device = 0;
    u64 inode = 0;
    auto operator<=>(const FileId&) const = default;
};

struct FileUse {
    std::vector<i64> pids;  // ascending, each once
    std::string path;       // path in the mount namespace of one of the processes
    bool deleted = false;   // unlinked; the memory stays allocated while a process uses the file
    i64 bytes = 0;          // maximum of the allocated bytes (open file) and the ends of all
                            // mappings
};

struct ProcessTable {
    std::map<i64, Process> processes;
    std::map<FileId, FileUse> files;           // only files on the `device` of read_processes()
    std::map<i64, std::vector<i64>> system_v;  // pids by System V segment id

    // Returns whether this process can see the files of every process that may have a file of user
    // `uid` open.
    bool sees_all_of(i64 uid) const;
};

// Reads all processes of /proc, and finds those that use files of `device` (st_dev of a file
// system).
ProcessTable read_processes(u64 device);

bool process_exists(i64 pid);

// One line of /proc/PID/maps.
struct MapsLine {
    i64 bytes = 0;
    i64 file_offset = 0;
    FileId file;
    std::string path;
    bool deleted = false;
};
// Returns nullopt for anonymous memory and malformed lines.
std::optional<MapsLine> parse_maps_line(std::string_view line);

// Returns the name of the user, or the number of a user without a name.
std::string user_name(i64 uid);
// Returns the uid of a user name, or the number that `user` is.
std::optional<i64> uid_of(const std::string& user);

}  // namespace lm::cluster
