// SPDX-License-Identifier: Apache-2.0
#include "io/filesystem_use.hpp"

#include <sys/statvfs.h>

#include <cerrno>
#include <filesystem>

#include "io/checked.hpp"
#include "io/file.hpp"

namespace lm::io {

FilesystemUse filesystem_use(const std::string& path) {
    struct statvfs status = {};
    if (::statvfs(path.c_str(), &status) != 0) {
        system_error(path, "read the free space", errno);
    }
    const auto block = static_cast<i64>(status.f_frsize);
    return {.size = static_cast<i64>(status.f_blocks) * block,
            .used = static_cast<i64>(status.f_blocks - status.f_bfree) * block,
            .available = static_cast<i64>(status.f_bavail) * block,
            .inodes = static_cast<i64>(status.f_files),
            .inodes_used = static_cast<i64>(status.f_files - status.f_ffree),
            .inodes_available = static_cast<i64>(status.f_favail)};
}

std::string nearest_existing(const std::string& path) {
    namespace fs = std::filesystem;
    std::error_code ignored;
    fs::path at = fs::absolute(path, ignored);
    while (!exists(at.string()) && at.has_relative_path()) at = at.parent_path();
    return at.string();
}

}  // namespace lm::io
