// SPDX-License-Identifier: Apache-2.0
#include "io/filesystem_use.hpp"

#include <fcntl.h>
#include <sys/quota.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "io/checked.hpp"
#include "io/file.hpp"

namespace lm::io {
namespace {

void limit(std::optional<i64>& room, u64 most, u64 used) {
    if (most == 0) return;  // no limit
    const i64 left = used < most ? static_cast<i64>(most - used) : 0;
    room = std::min(room.value_or(left), left);
}

// Adds the quota of a user or group `id` to `room`. Does nothing where the kernel or the file
// system has no quotas.
void add_quota([[maybe_unused]] int fd, [[maybe_unused]] int type, [[maybe_unused]] unsigned id,
               [[maybe_unused]] QuotaRoom& room) {
#ifdef SYS_quotactl_fd
    struct dqblk quota = {};
    if (::syscall(SYS_quotactl_fd, fd, QCMD(Q_GETQUOTA, type), id, &quota) != 0) return;
    constexpr u64 block = 1024;  // quotactl(2): limits are in blocks of 1 KiB, the use in bytes
    limit(room.bytes, quota.dqb_bhardlimit * block, quota.dqb_curspace);
    limit(room.inodes, quota.dqb_ihardlimit, quota.dqb_curinodes);
#endif
}

QuotaRoom quota_room(const std::string& path) {
    QuotaRoom room;
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return room;
    add_quota(fd, USRQUOTA, ::getuid(), room);
    add_quota(fd, GRPQUOTA, ::getgid(), room);
    ::close(fd);
    return room;
}

}  // namespace

FilesystemUse limited(FilesystemUse use, const QuotaRoom& room) {
    use.available = std::min(use.available, room.bytes.value_or(use.available));
    if (room.inodes) {
        // On a file system without a limit of inodes, the quota is the only limit.
        const bool unlimited = use.inodes == 0;
        use.inodes_available =
            unlimited ? *room.inodes : std::min(use.inodes_available, *room.inodes);
        if (unlimited) use.inodes = *room.inodes;
    }
    return use;
}

FilesystemUse filesystem_use(const std::string& path) {
    struct statvfs status = {};
    if (::statvfs(path.c_str(), &status) != 0) {
        system_error(path, "read the free space", errno);
    }
    const auto block = static_cast<i64>(status.f_frsize);
    const FilesystemUse use = {.size = static_cast<i64>(status.f_blocks) * block,
                               .used = static_cast<i64>(status.f_blocks - status.f_bfree) * block,
                               .available = static_cast<i64>(status.f_bavail) * block,
                               .block = block,
                               .inodes = static_cast<i64>(status.f_files),
                               .inodes_used = static_cast<i64>(status.f_files - status.f_ffree),
                               .inodes_available = static_cast<i64>(status.f_favail)};
    return limited(use, quota_room(path));
}

std::string nearest_existing(const std::string& path) {
    namespace fs = std::filesystem;
    std::error_code ignored;
    fs::path at = fs::absolute(path, ignored);
    while (!exists(at.string()) && at.has_relative_path()) at = at.parent_path();
    return at.string();
}

}  // namespace lm::io
