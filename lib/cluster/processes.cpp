// SPDX-License-Identifier: Apache-2.0
#include "cluster/processes.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>

#include "io/file.hpp"
#include "io/lines.hpp"

namespace lm::cluster {
namespace {

constexpr std::string_view deleted_mark = " (deleted)";

std::vector<std::string> names_in(const std::string& directory) {
    std::vector<std::string> names;
    DIR* handle = opendir(directory.c_str());
    if (!handle) return names;
    while (const dirent* entry = readdir(handle)) names.emplace_back(entry->d_name);
    closedir(handle);
    return names;
}

struct Text {
    bool permitted = true;
    std::string text;  // empty when the process has ended, or has no memory (kernel threads)
};

Text text_of(const std::string& path) {
    const io::Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.valid()) return {.permitted = errno != EACCES && errno != EPERM, .text = {}};
    Text result;
    char buffer[16384];
    while (true) {
        const ssize_t n = read(fd.get(), buffer, sizeof buffer);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EACCES || errno == EPERM)) result.permitted = false;
        if (n <= 0) return result;
        result.text.append(buffer, static_cast<size_t>(n));
    }
}

// Parses a number at the front of `text` and removes it.
template <typename T>
bool parse_number_prefix(std::string_view& text, T& value, int base) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (error != std::errc()) return false;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    return true;
}

bool skip_char(std::string_view& text, char c) {
    if (text.empty() || text.front() != c) return false;
    text.remove_prefix(1);
    return true;
}

void add_use(ProcessTable& table, i64 pid, const FileId& file, std::string path, bool deleted,
             i64 bytes) {
    FileUse& use = table.files[file];
    if (use.pids.empty() || use.pids.back() != pid) use.pids.push_back(pid);
    use.path = std::move(path);
    use.deleted = deleted;
    use.bytes = std::max(use.bytes, bytes);
}

void add_mapped_files(ProcessTable& table, i64 pid, u64 device, std::string_view maps) {
    for (const std::string_view text : io::lines_of(maps)) {
        const std::optional<MapsLine> line = parse_maps_line(text);
        if (!line) continue;
        if (line->path.starts_with("/SYSV")) {  // the inode of such a mapping is the segment's id
            std::vector<i64>& pids = table.system_v[static_cast<i64>(line->file.inode)];
            if (pids.empty() || pids.back() != pid) pids.push_back(pid);
        }
        if (line->file.device != device) continue;
        add_use(table, pid, line->file, line->path, line->deleted, line->file_offset + line->bytes);
    }
}

void add_open_files(ProcessTable& table, i64 pid, u64 device, const std::string& directory) {
    for (const std::string& name : names_in(directory)) {
        const std::string link = directory + "/" + name;
        struct stat status = {};
        if (stat(link.c_str(), &status) != 0 || status.st_dev != device) continue;
        if (!S_ISREG(status.st_mode)) continue;
        char target[4096];
        const ssize_t n = readlink(link.c_str(), target, sizeof target);
        if (n < 0) continue;
        std::string path(target, static_cast<size_t>(n));
        if (path.ends_with(deleted_mark)) path.resize(path.size() - deleted_mark.size());
        add_use(table, pid, {status.st_dev, status.st_ino}, std::move(path), status.st_nlink == 0,
                i64{status.st_blocks} * 512);  // the unit of st_blocks is 512 bytes on every file
                                               // system
    }
}

void add_process(ProcessTable& table, i64 pid, u64 device) {
    const std::string directory = "/proc/" + std::to_string(pid);
    struct stat status = {};
    if (stat(directory.c_str(), &status) != 0) return;  // the process has ended
    Process process{.pid = pid, .uid = status.st_uid, .command = {}};
    const std::string name = text_of(directory + "/comm").text;
    process.command = name.substr(0, name.find('\n'));
    const Text maps = text_of(directory + "/maps");
    process.visible = maps.permitted;
    add_mapped_files(table, pid, device, maps.text);
    add_open_files(table, pid, device, directory + "/fd");
    table.processes.emplace(pid, std::move(process));
}

}  // namespace

bool ProcessTable::sees_all_of(i64 uid) const {
    if (geteuid() != 0 && uid != static_cast<i64>(geteuid())) return false;
    return std::ranges::none_of(processes, [uid](const auto& entry) {
        return !entry.second.visible && entry.second.uid == uid;
    });
}

ProcessTable read_processes(u64 device) {
    ProcessTable table;
    std::vector<i64> pids;
    for (const std::string& name : names_in("/proc")) {
        std::string_view digits = name;
        i64 pid = 0;
        if (parse_number_prefix(digits, pid, 10) && digits.empty()) pids.push_back(pid);
    }
    std::ranges::sort(pids);
    for (const i64 pid : pids) add_process(table, pid, device);
    return table;
}

bool process_exists(i64 pid) {
    return kill(static_cast<pid_t>(pid), 0) == 0 || errno != ESRCH;
}

// Format: proc_pid_maps(5), for example
//     7f00-7f10 rw-s 00000000 00:16 1234   /dev/shm/name (deleted)
std::optional<MapsLine> parse_maps_line(std::string_view line) {
    u64 begin = 0;
    u64 end = 0;
    u64 offset = 0;
    unsigned major_number = 0;
    unsigned minor_number = 0;
    MapsLine result;
    if (!parse_number_prefix(line, begin, 16) || !skip_char(line, '-') ||
        !parse_number_prefix(line, end, 16)) {
        return std::nullopt;
    }
    if (line.size() < 6) return std::nullopt;
    line.remove_prefix(6);  // " rw-s "
    if (!parse_number_prefix(line, offset, 16) || !skip_char(line, ' ') ||
        !parse_number_prefix(line, major_number, 16) || !skip_char(line, ':') ||
        !parse_number_prefix(line, minor_number, 16) || !skip_char(line, ' ') ||
        !parse_number_prefix(line, result.file.inode, 10) || result.file.inode == 0) {
        return std::nullopt;
    }
    // A valid line has no larger size or offset, and the sum of larger values would overflow.
    constexpr u64 most = u64{1} << 62;
    if (end < begin || end - begin >= most || offset >= most) return std::nullopt;
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    result.bytes = static_cast<i64>(end - begin);
    result.file_offset = static_cast<i64>(offset);
    result.file.device = makedev(major_number, minor_number);
    result.deleted = line.ends_with(deleted_mark);
    if (result.deleted) line.remove_suffix(deleted_mark.size());
    result.path = line;
    return result;
}

std::string user_name(i64 uid) {
    passwd entry = {};
    passwd* found = nullptr;
    std::vector<char> buffer(16384);
    getpwuid_r(static_cast<uid_t>(uid), &entry, buffer.data(), buffer.size(), &found);
    return found ? found->pw_name : std::to_string(uid);
}

std::optional<i64> uid_of(const std::string& user) {
    passwd entry = {};
    passwd* found = nullptr;
    std::vector<char> buffer(16384);
    getpwnam_r(user.c_str(), &entry, buffer.data(), buffer.size(), &found);
    if (found) return found->pw_uid;
    i64 uid = 0;
    const auto [end, error] = std::from_chars(user.data(), user.data() + user.size(), uid);
    if (error != std::errc() || end != user.data() + user.size() || uid < 0) return std::nullopt;
    return uid;
}

}  // namespace lm::cluster
