// SPDX-License-Identifier: Apache-2.0
// The size and the free space of a file system.
#pragma once

#include <optional>
#include <string>

#include "base/types.hpp"

namespace lm::io {

struct FilesystemUse {
    i64 size = 0;  // bytes
    i64 used = 0;
    i64 available = 0;  // bytes, for a process without privileges
    i64 block = 0;      // bytes; files are allocated in whole blocks
    i64 inodes = 0;     // 0: no limit
    i64 inodes_used = 0;
    i64 inodes_available = 0;
    double use() const {
        return size > 0 ? static_cast<double>(used) / static_cast<double>(size) : 0;
    }
    double inode_use() const {
        return inodes > 0 ? static_cast<double>(inodes_used) / static_cast<double>(inodes) : 0;
    }
};

// The space and the inodes that a quota leaves. nullopt: the quota does not limit this member.
struct QuotaRoom {
    std::optional<i64> bytes, inodes;
};

// Returns a copy of `use` in which the available room is at most `room`.
FilesystemUse limited(FilesystemUse use, const QuotaRoom& room);

// Returns the use of the file system that contains `path`. `available` and `inodes_available` obey
// the quotas of the user and the group, if the kernel provides them, which it does not on Lustre
// and NFS. Throws Error(failure) when `path` cannot be examined.
FilesystemUse filesystem_use(const std::string& path);

// Returns `path`, or the nearest directory above it that exists.
std::string nearest_existing(const std::string& path);

}  // namespace lm::io
