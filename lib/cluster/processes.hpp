// SPDX-License-Identifier: Apache-2.0
// The processes of this host and the files that they have open or mapped, from /proc. Processes of
// other users are only partly visible without privileges; that is recorded, not guessed.
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
    std::string command;  // its short name (/proc/PID/comm)
    bool visible = true;  // false: its mappings could not be read
};

// A file by what maps and stat agree on.
struct FileId {
    u64 device = 0;
    u64 inode = 0;
    auto operator<=>(const FileId&) const = default;
};

struct FileUse {
    std::vector<i64> pids;  // ascending, each once
    std::string path;       // as a process sees it
    bool deleted = false;   // the name is gone, the memory is not
    i64 bytes = 0;          // largest extent that a process maps, or the size of an open file
};

struct ProcessTable {
    std::map<i64, Process> processes;
    std::map<FileId, FileUse> files;           // those on `device` only
    std::map<i64, std::vector<i64>> system_v;  // pids by segment

    // Could a process that we cannot look into have the files of this user open?
    bool sees_all_of(i64 uid) const;
};

// Every process of /proc, and who uses files of `device` (st_dev of a file system).
ProcessTable read_processes(u64 device);

bool process_exists(i64 pid);

// One line of /proc/PID/maps; nullopt for anonymous memory and junk.
struct MapsLine {
    i64 bytes = 0;
    i64 file_offset = 0;
    FileId file;
    std::string path;
    bool deleted = false;
};
std::optional<MapsLine> parse_maps_line(std::string_view line);

// The user's name, or the number when there is none.
std::string user_name(i64 uid);

}  // namespace lm::cluster
