// SPDX-License-Identifier: Apache-2.0
#include "cluster/limits.hpp"

#include <mntent.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <set>
#include <sstream>

#include "base/error.hpp"
#include "io/file.hpp"

namespace lm::cluster {
namespace {

std::optional<std::string> text_of(const std::string& path) {
    try {
        return io::read_file(path);
    } catch (const Error&) {
        return std::nullopt;
    }
}

std::optional<i64> number_in(const std::string& path) {
    const std::optional<std::string> text = text_of(path);
    if (!text) return std::nullopt;
    std::istringstream words(*text);
    i64 value = 0;
    if (words >> value) return value;
    return std::nullopt;
}

void add_rlimit(std::vector<Limit>& limits, const std::string& key, const std::string& what,
                int resource, bool is_bytes) {
    rlimit limit = {};
    if (getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) return;
    const auto value = [](rlim_t n) {
        return n == RLIM_INFINITY ? std::nullopt : std::optional<i64>(static_cast<i64>(n));
    };
    limits.push_back({key + "_soft", what + ", soft", is_bytes, value(limit.rlim_cur)});
    limits.push_back({key + "_hard", what + ", hard", is_bytes, value(limit.rlim_max)});
}

// A limit of at least this value means no limit. Control groups of version 1 report the absence of
// a limit as LONG_MAX rounded down to pages.
constexpr i64 no_limit = i64{1} << 60;

struct GroupFiles {
    const char* limit;
    const char* use;
    const char* cached;  // key of the inactive file pages in memory.stat
};
constexpr GroupFiles files_v1 = {"/memory.limit_in_bytes", "/memory.usage_in_bytes",
                                 "total_inactive_file"};
constexpr GroupFiles files_v2 = {"/memory.max", "/memory.current", "inactive_file"};

// Returns the memory that remains under the limits of the group `root/path` and of all groups above
// it: the minimum over these groups. Returns nullopt when no group has a limit.
std::optional<i64> least_left(const std::string& root, std::string path, const GroupFiles& files) {
    std::optional<i64> least;
    while (true) {
        const std::string group = root + path;
        const std::optional<i64> limit = number_in(group + files.limit);
        const std::optional<i64> use = number_in(group + files.use);
        // Subtracts the inactive file pages from the use, because the kernel reclaims these pages
        // before its out-of-memory killer acts.
        if (limit && use && *limit < no_limit) {
            const i64 cached = keyed_number(group + "/memory.stat", files.cached).value_or(0);
            const i64 left = std::max<i64>(0, *limit - std::max<i64>(0, *use - cached));
            least = std::min(least.value_or(left), left);
        }
        const size_t slash = path.rfind('/');
        if (path.empty() || slash == std::string::npos) return least;
        path.resize(slash);
    }
}

// Returns the lowest limit in the files `file` of the group `root/path` and of all groups above it;
// nullopt when no group has a limit.
std::optional<i64> lowest_limit(const std::string& root, std::string path, const char* file) {
    std::optional<i64> lowest;
    while (true) {
        const std::optional<i64> value = number_in(root + path + "/" + file);
        if (value && *value < no_limit) lowest = std::min(lowest.value_or(*value), *value);
        const size_t slash = path.rfind('/');
        if (path.empty() || slash == std::string::npos) return lowest;
        path.resize(slash);
    }
}

}  // namespace

std::optional<i64> keyed_number(const std::string& path, const std::string& key) {
    std::istringstream lines(text_of(path).value_or(""));
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string name;
        i64 value = 0;
        if (words >> name >> value && name == key) return value;
    }
    return std::nullopt;
}

CgroupPaths parse_cgroup(std::string_view text) {
    CgroupPaths paths;
    std::istringstream lines{std::string(text)};
    for (std::string line; std::getline(lines, line);) {
        const size_t first = line.find(':');
        const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
        if (second == std::string::npos) continue;
        const std::string controllers = line.substr(first + 1, second - first - 1);
        std::string path = line.substr(second + 1);
        if (path == "/") path.clear();
        if (controllers.empty()) paths.v2 = path;
        if (("," + controllers + ",").find(",memory,") != std::string::npos) {
            paths.v1_memory = path;
        }
    }
    return paths;
}

std::optional<i64> cgroup_memory_limit() {
    const CgroupPaths paths = parse_cgroup(text_of("/proc/self/cgroup").value_or(""));
    std::optional<i64> lowest;
    for (const std::optional<i64>& limit :
         {lowest_limit("/sys/fs/cgroup", paths.v2, "memory.max"),
          lowest_limit("/sys/fs/cgroup/unified", paths.v2, "memory.max"),
          lowest_limit("/sys/fs/cgroup/memory", paths.v1_memory, "memory.limit_in_bytes")}) {
        if (limit) lowest = std::min(lowest.value_or(*limit), *limit);
    }
    return lowest;
}

std::optional<MemoryRoom> memory_room() {
    std::optional<MemoryRoom> room;
    const auto consider = [&room](std::optional<i64> bytes, const char* whose) {
        if (bytes && (!room || *bytes < room->bytes)) room = MemoryRoom{*bytes, whose};
    };
    if (const auto kib = keyed_number("/proc/meminfo", "MemAvailable:")) {
        consider(*kib * 1024, "available memory of the host");
    }
    const CgroupPaths paths = parse_cgroup(text_of("/proc/self/cgroup").value_or(""));
    for (const std::optional<i64>& left :
         {least_left("/sys/fs/cgroup", paths.v2, files_v2),
          least_left("/sys/fs/cgroup/unified", paths.v2, files_v2),
          least_left("/sys/fs/cgroup/memory", paths.v1_memory, files_v1)}) {
        consider(left, "memory left in the control group");
    }
    return room;
}

std::optional<i64> address_room() {
    rlimit limit = {};
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
    const i64 used = keyed_number("/proc/self/status", "VmSize:").value_or(0) * 1024;
    return std::max<i64>(0, static_cast<i64>(limit.rlim_cur) - used);
}

std::vector<Mount> tmpfs_mounts() {
    std::vector<Mount> mounts;
    const std::unique_ptr<FILE, int (*)(FILE*)> table(setmntent("/proc/self/mounts", "r"),
                                                      endmntent);
    if (!table) return mounts;
    std::set<std::string> seen;
    mntent entry = {};
    char buffer[4096];
    while (getmntent_r(table.get(), &entry, buffer, sizeof buffer)) {
        struct statvfs status = {};
        if (std::string_view(entry.mnt_type) != "tmpfs" || !seen.insert(entry.mnt_dir).second ||
            statvfs(entry.mnt_dir, &status) != 0) {
            continue;
        }
        const auto block = static_cast<i64>(status.f_frsize);
        mounts.push_back({entry.mnt_dir, static_cast<i64>(status.f_blocks) * block,
                          static_cast<i64>(status.f_blocks - status.f_bfree) * block});
    }
    return mounts;
}

std::vector<Limit> read_limits() {
    std::vector<Limit> limits;
    add_rlimit(limits, "memlock", "locked memory", RLIMIT_MEMLOCK, true);
    add_rlimit(limits, "nofile", "open files", RLIMIT_NOFILE, false);
    add_rlimit(limits, "nproc", "processes of the user", RLIMIT_NPROC, false);
    const auto add_pages = [&limits](const char* name, const char* key, const char* what,
                                     bool is_bytes) {
        const std::optional<i64> value = keyed_number("/proc/meminfo", name);
        if (value) limits.push_back({key, what, is_bytes, is_bytes ? *value * 1024 : *value});
    };
    add_pages("HugePages_Total:", "hugepages", "huge pages", false);
    add_pages("HugePages_Free:", "hugepages_free", "huge pages free", false);
    add_pages("Hugepagesize:", "hugepage_size", "size of a huge page", true);
    limits.push_back({"cgroup_memory", "memory of the control group", true, cgroup_memory_limit()});
    const auto add_file = [&limits](const char* key, const char* what, bool is_bytes,
                                    const char* path) {
        if (const std::optional<i64> value = number_in(path)) {
            limits.push_back({key, what, is_bytes, value});
        }
    };
    add_file("shmmni", "System V segments", false, "/proc/sys/kernel/shmmni");
    add_file("max_map_count", "mappings of a process", false, "/proc/sys/vm/max_map_count");
    return limits;
}

}  // namespace lm::cluster
