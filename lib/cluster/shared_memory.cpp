// SPDX-License-Identifier: Apache-2.0
#include "cluster/shared_memory.hpp"

#include <fcntl.h>
#include <fnmatch.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <sstream>

#include "base/error.hpp"
#include "cluster/segment_names.hpp"
#include "io/file.hpp"

namespace lm::cluster {
namespace {

namespace fs = std::filesystem;

u64 device_of(const std::string& path) {
    struct stat status = {};
    if (stat(path.c_str(), &status) != 0) run_error(path, "{}", std::strerror(errno));
    return status.st_dev;
}

std::vector<Process> processes_named(const ProcessTable& table, const std::vector<i64>& pids) {
    std::vector<Process> result;
    for (const i64 pid : pids) {
        const auto found = table.processes.find(pid);
        if (found != table.processes.end()) result.push_back(found->second);
    }
    return result;
}

// Returns the path of a file relative to `directory`, which contains it.
std::string path_below(const std::string& directory, const std::string& path) {
    return fs::path(path).lexically_relative(directory);
}

enum class Holder { none, some, unknown };

// Asks the kernel whether another process has this file open or mapped. The answer includes
// processes that are not visible, for example in another container. The kernel grants a write lease
// only on a file that no other process has open (fcntl(2), F_SETLEASE), and only to the owner of
// the file or a privileged user. Releases the lease at once.
Holder ask_for_lease(const std::string& path) {
    const io::Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!fd.valid()) return Holder::unknown;
    const auto before = std::signal(
        SIGIO, SIG_IGN);  // SIGIO is sent when a process opens the file during the lease
    const bool granted = fcntl(fd.get(), F_SETLEASE, F_WRLCK) == 0;
    const bool busy = !granted && (errno == EAGAIN || errno == EBUSY);
    if (granted) fcntl(fd.get(), F_SETLEASE, F_UNLCK);
    std::signal(SIGIO, before);
    if (granted) return Holder::none;
    return busy ? Holder::some : Holder::unknown;
}

Holder find_holder(const Segment& segment, const ProcessTable& table) {
    if (!segment.owners.empty()) return Holder::some;
    const Holder holder = ask_for_lease(segment.name);
    return holder == Holder::unknown && table.sees_all_of(segment.uid) ? Holder::none : holder;
}

// Sets the owners, the creator and the state of a file of `directory`.
void find_owners(Segment& segment, const std::string& directory, const ProcessTable& table) {
    const auto use = table.files.find(segment.file);
    if (use != table.files.end()) segment.owners = processes_named(table, use->second.pids);
    const auto maker = maker_of(path_below(directory, segment.name));
    if (maker) segment.creator = maker->creator;
    switch (find_holder(segment, table)) {
        case Holder::some:
            segment.state = SegmentState::live;
            return;
        case Holder::unknown:
            segment.state = SegmentState::unknown;
            return;
        case Holder::none:
            break;
    }
    const bool ended = segment.creator != 0 && !process_exists(segment.creator);
    segment.state = ended ? SegmentState::dead : SegmentState::unused;
}

// Returns the regular files below `directory` and its subfolders that are on the file system
// `device` (st_dev).
std::vector<Segment> named_segments(const std::string& directory, u64 device) {
    std::vector<Segment> segments;
    std::error_code error;
    fs::recursive_directory_iterator entry(directory, fs::directory_options::skip_permission_denied,
                                           error);
    for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
        struct stat status = {};
        if (lstat(entry->path().c_str(), &status) != 0) continue;  // removed in the meantime
        if (!S_ISREG(status.st_mode) || status.st_dev != device) continue;
        Segment segment;
        segment.name = entry->path();
        segment.file = {status.st_dev, status.st_ino};
        segment.bytes = i64{status.st_blocks} * 512;
        segment.uid = status.st_uid;
        segment.changed = status.st_mtime;
        segments.push_back(std::move(segment));
    }
    return segments;
}

// Appends the unlinked files that processes still have open or mapped. Such a file still uses
// memory.
void add_deleted(std::vector<Segment>& segments, const ProcessTable& table) {
    for (const auto& [file, use] : table.files) {
        if (!use.deleted) continue;
        Segment segment;
        segment.name = use.path;
        segment.file = file;
        segment.deleted = true;
        segment.bytes = use.bytes;
        segment.owners = processes_named(table, use.pids);
        segment.state = SegmentState::live;
        if (!segment.owners.empty()) segment.uid = segment.owners.front().uid;
        segments.push_back(std::move(segment));
    }
}

// Sets the owners and the state of a System V segment. The owners are the attached processes, which
// /proc/PID/maps shows, or the creator if no attached process is visible. The kernel itself reports
// only the creator and the number of attached processes.
void find_system_v_owners(Segment& segment, i64 n_attached, const ProcessTable& table) {
    const auto creator = table.processes.find(segment.creator);
    const auto attached = table.system_v.find(segment.id);
    if (attached != table.system_v.end()) {
        segment.owners = processes_named(table, attached->second);
    } else if (creator != table.processes.end()) {
        segment.owners = {creator->second};
    }
    if (n_attached > 0) {
        segment.state = SegmentState::live;
    } else if (segment.creator == 0) {
        segment.state = SegmentState::unknown;  // created in another pid namespace
    } else {
        segment.state = process_exists(segment.creator) ? SegmentState::idle : SegmentState::dead;
    }
}

i64 age_s(const Segment& segment) {
    return std::time(nullptr) - segment.changed;
}

// Returns whether a file is part of a checkpoint step.
bool is_in_step(const std::string& path) {
    return std::ranges::any_of(fs::path(path), [](const fs::path& part) {
        return part.native().starts_with("global_step");
    });
}

// Removes the file of a segment. Follows no symbolic link, because other users may replace a
// subfolder by one. Returns 0, or -1 with errno.
int unlink_file(const std::string& directory, const Segment& segment) {
    io::Fd folder(open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    const fs::path path = path_below(directory, segment.name);
    for (const fs::path& part : path.parent_path()) {
        if (!folder.valid()) return -1;
        folder = io::Fd(
            openat(folder.get(), part.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    }
    if (!folder.valid()) return -1;
    struct stat status = {};
    const std::string name = path.filename();
    if (fstatat(folder.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return -1;
    if (FileId{status.st_dev, status.st_ino} != segment.file) {
        errno = ESTALE;
        return -1;
    }
    return unlinkat(folder.get(), name.c_str(), 0);
}

// Asks the kernel for the state of a System V segment that was not in use. Returns nullopt when it
// was removed.
std::optional<Segment> system_v_now(Segment segment) {
    shmid_ds status = {};
    if (shmctl(static_cast<int>(segment.id), IPC_STAT, &status) != 0) {
        return errno == EACCES ? std::optional(segment) : std::nullopt;
    }
    if (status.shm_cpid != segment.creator || status.shm_ctime != segment.changed) {
        return std::nullopt;
    }
    if (status.shm_nattch > 0) segment.state = SegmentState::live;
    return segment;
}

// Asks the kernel for the state of a file that was not in use. Returns nullopt when it was removed.
std::optional<Segment> file_now(Segment segment) {
    struct stat status = {};
    if (lstat(segment.name.c_str(), &status) != 0 ||
        FileId{status.st_dev, status.st_ino} != segment.file) {
        return std::nullopt;
    }
    segment.changed = status.st_mtime;
    if (ask_for_lease(segment.name) == Holder::some) segment.state = SegmentState::live;
    return segment;
}

std::string system_v_text() {
    constexpr const char* path = "/proc/sysvipc/shm";
    return io::exists(path) ? io::read_file(path) : "";
}

}  // namespace

std::vector<SystemVLine> parse_system_v(std::string_view text) {
    std::vector<SystemVLine> result;
    std::istringstream lines{std::string(text)};
    std::string line;
    std::getline(lines, line);  // headings
    while (std::getline(lines, line)) {
        std::istringstream words(line);
        i64 key = 0, id = 0, size = 0, creator = 0, last = 0, attached = 0, uid = 0, gid = 0;
        i64 creator_uid = 0, creator_gid = 0, attach_time = 0, detach_time = 0, change_time = 0;
        i64 resident = -1;
        std::string mode;
        words >> key >> id >> mode >> size >> creator >> last >> attached >> uid >> gid >>
            creator_uid >> creator_gid >> attach_time >> detach_time >> change_time;
        if (!words) continue;
        words >> resident;
        SystemVLine entry;
        entry.segment.system_v = true;
        entry.segment.name = "sysv:" + std::to_string(id);
        entry.segment.id = id;
        entry.segment.bytes = resident >= 0 ? resident : size;
        entry.segment.uid = uid;
        entry.segment.changed = change_time;
        entry.segment.creator = creator;
        entry.n_attached = attached;
        result.push_back(std::move(entry));
    }
    return result;
}

SharedMemory read_shared_memory(const std::string& directory) {
    SharedMemory memory;
    memory.use = io::filesystem_use(directory);
    const u64 device = device_of(directory);
    // Reads segments before processes. In the other order, a segment that is created between the
    // two reads would look dead.
    memory.segments = named_segments(directory, device);
    std::vector<SystemVLine> system_v = parse_system_v(system_v_text());
    const ProcessTable table = read_processes(device);
    for (Segment& segment : memory.segments) find_owners(segment, directory, table);
    add_deleted(memory.segments, table);
    for (SystemVLine& line : system_v) {
        find_system_v_owners(line.segment, line.n_attached, table);
        memory.segments.push_back(std::move(line.segment));
    }
    std::ranges::stable_sort(memory.segments, [](const Segment& a, const Segment& b) {
        return a.bytes != b.bytes ? a.bytes > b.bytes : a.name < b.name;
    });
    return memory;
}

bool selects(const SegmentSelection& selection, const std::string& directory,
             const Segment& segment) {
    if (selection.name) {
        const std::string name =
            segment.system_v ? segment.name : path_below(directory, segment.name);
        if (::fnmatch(selection.name->c_str(), name.c_str(), FNM_PATHNAME) != 0) return false;
    }
    if (selection.uid && segment.uid != *selection.uid) return false;
    return segment.bytes >= selection.min_bytes && age_s(segment) >= selection.older_s.value_or(0);
}

bool is_removable(const SegmentSelection& selection, const std::string& directory,
                  const Segment& segment) {
    const std::string name = segment.system_v ? "" : path_below(directory, segment.name);
    if (is_in_step(name)) return false;
    if (segment.state != SegmentState::unused) return segment.state == SegmentState::dead;
    return selection.name || (selection.older_s && segment.creator == 0 && maker_of(name));
}

Removal remove_segment(const std::string& directory, const Segment& segment,
                       const SegmentSelection& selection) {
    const std::optional<Segment> now = segment.system_v ? system_v_now(segment) : file_now(segment);
    if (!now) return {false, "it was removed already"};
    if (!is_removable(selection, directory, *now)) return {false, "it is no longer dead"};
    const i64 min_age_s = selection.older_s.value_or(default_min_age_s);
    if (age_s(*now) < min_age_s) {
        return {false, fmt::format("it changed less than {} s ago", min_age_s)};
    }
    const int result = now->system_v ? shmctl(static_cast<int>(now->id), IPC_RMID, nullptr)
                                     : unlink_file(directory, *now);
    if (result != 0) return {false, std::strerror(errno)};
    return {true, ""};
}

}  // namespace lm::cluster
