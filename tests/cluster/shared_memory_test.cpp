// SPDX-License-Identifier: Apache-2.0
// The table of System V segments, and real segments of this host, where it has /dev/shm.
#include "cluster/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "cluster/segment_names.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::cluster;

namespace {

constexpr const char* shm = "/dev/shm";

bool has_shm() {
    return access(shm, R_OK | W_OK | X_OK) == 0;
}

// Returns the id of a process that has ended. Other tests use the same /dev/shm.
pid_t ended_process() {
    const pid_t pid = fork();
    if (pid == 0) _exit(0);
    REQUIRE(waitpid(pid, nullptr, 0) == pid);
    return pid;
}

// A file in /dev/shm, removed at the end.
class ShmFile {
  public:
    explicit ShmFile(i64 bytes,
                     const std::string& name = fmt::format("torch_{}_1_1", ended_process()))
        : path_(fmt::format("{}/{}", shm, name)) {
        fd_ = open(path_.c_str(), O_CREAT | O_RDWR | O_TRUNC | O_CLOEXEC, 0600);
        REQUIRE(fd_ >= 0);
        REQUIRE(posix_fallocate(fd_, 0, bytes) == 0);
    }
    ~ShmFile() {
        close_fd();
        unlink(path_.c_str());
    }
    void close_fd() {
        if (fd_ >= 0) close(fd_);
        fd_ = -1;
    }
    int fd() const { return fd_; }
    const std::string& path() const { return path_; }

  private:
    std::string path_;
    int fd_ = -1;
};

const Segment* find(const SharedMemory& memory, const std::string& path) {
    const auto found = std::ranges::find_if(
        memory.segments, [&path](const Segment& segment) { return segment.name == path; });
    return found == memory.segments.end() ? nullptr : &*found;
}

}  // namespace

TEST_CASE("the table of System V segments") {
    const std::vector<SystemVLine> lines = parse_system_v(
        "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  "
        "cgid"
        "      atime      dtime      ctime                   rss                  swap\n"
        "         0          7   600               1048576   123   124      2  1000  1000  1000  "
        "1000"
        " 1700000000          0 1700000001                  8192                     0\n"
        "         1          9   600               4096     5     5      0  0  0  0  0 1 2 3\n"
        "junk\n");
    REQUIRE(lines.size() == 2);
    const Segment& first = lines[0].segment;
    CHECK(first.name == "sysv:7");
    CHECK(first.id == 7);
    CHECK(first.bytes == 8192);
    CHECK(first.creator == 123);
    CHECK(first.uid == 1000);
    CHECK(first.changed == 1700000001);
    CHECK(lines[0].n_attached == 2);
    CHECK(lines[1].segment.bytes == 4096);  // kernels without the column rss
    CHECK(parse_system_v("").empty());
}

TEST_CASE("an error for a missing path names it") {
    try {
        io::filesystem_use("/nonexistent/shm");
        FAIL("no error");
    } catch (const Error& error) {
        CHECK(error.code() == Exit::failure);
        CHECK_THAT(error.what(), HasInOrder("/nonexistent/shm: ", ": No such file or directory"));
    }
}

TEST_CASE("a segment is live while a process has it open or mapped") {
    if (!has_shm()) {
        WARN("skipped: no /dev/shm");
        return;
    }
    ShmFile file(1 << 20);
    const auto state = [&file] {
        const SharedMemory memory = read_shared_memory(shm);
        const Segment* segment = find(memory, file.path());
        REQUIRE(segment);
        CHECK(segment->bytes == 1 << 20);
        const bool ours = std::ranges::any_of(
            segment->owners, [](const Process& process) { return process.pid == getpid(); });
        CHECK(ours == (segment->state == SegmentState::live));
        return segment->state;
    };
    CHECK(state() == SegmentState::live);
    void* mapped = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file.fd(), 0);
    file.close_fd();
    CHECK(state() == SegmentState::live);
    munmap(mapped, 4096);
    CHECK(state() == SegmentState::dead);
    const SharedMemory memory = read_shared_memory(shm);
    const Removal young = remove_segment(shm, *find(memory, file.path()), {.older_s = 3600});
    CHECK_FALSE(young.removed);
    CHECK(young.reason == "it changed less than 3600 s ago");
    CHECK_FALSE(remove_segment(shm, *find(memory, file.path()), {}).removed);
    CHECK(remove_segment(shm, *find(memory, file.path()), {.older_s = 0}).removed);
    CHECK(access(file.path().c_str(), F_OK) != 0);
    CHECK(remove_segment(shm, *find(memory, file.path()), {}).reason == "it was removed already");
}

TEST_CASE("the names of segments that libraries make") {
    const auto creator = [](std::string_view name) {
        const auto maker = maker_of(name);
        return maker ? maker->creator : -1;
    };
    CHECK(creator("nccl-aB3dEf") == 0);
    CHECK(creator("torch_4711_123456_0") == 4711);
    CHECK(creator("cuda.shm.3e8.1a2b.1") == 0x1a2b);
    CHECK(creator("psm_0123abcd") == 0);
    CHECK(creator("sem.loky-4711-abc_1") == 4711);
    CHECK(creator("pmix_dstor_ds12_1234") == 0);
    CHECK(creator("vader_segment.n17.1000.1a2b0001.3") == 0);
    for (const char* name :
         {"", "nccl", "nccl-notes.txt", "torch_weights", "corpus.bin", "psm_notes",
          "run/nccl-aB3dEf", "sm_segment.a/b.bin", "pmix_dstor_data/sub/data.bin",
          "coll_sm_a/data.bin", "torch_99999999999999999999_1_1"}) {
        CAPTURE(name);
        CHECK(creator(name) == -1);
    }
    CHECK_FALSE(maker_of(std::string(255, '(')));
}

TEST_CASE("a file that a user keeps is unused, and is removed only by its name") {
    if (!has_shm()) {
        WARN("skipped: no /dev/shm");
        return;
    }
    const auto state_and_removal = [](const std::string& name, const SegmentSelection& selection) {
        ShmFile file(4096, name);
        file.close_fd();
        const SharedMemory memory = read_shared_memory(shm);
        const Segment* segment = find(memory, file.path());
        REQUIRE(segment);
        const bool removed = remove_segment(shm, *segment, selection).removed;
        CHECK(removed == (access(file.path().c_str(), F_OK) != 0));
        return std::pair(segment->state, removed);
    };
    using enum SegmentState;
    const std::string own = fmt::format("lm-test-{}", getpid());
    CHECK(state_and_removal(own, {}) == std::pair(unused, false));
    CHECK(state_and_removal(own, {.older_s = 0}) == std::pair(unused, false));
    CHECK(state_and_removal(own, {.name = "lm-test-*", .older_s = 0}) == std::pair(unused, true));
    // The process in the name of a PyTorch segment is alive.
    const std::string alive = fmt::format("torch_{}_1_1", getpid());
    CHECK(state_and_removal(alive, {.older_s = 0}) == std::pair(unused, false));
    // A program may open its segment again, whose name has no process.
    const std::string closed = fmt::format("psm_{:08x}", getpid());
    CHECK(state_and_removal(closed, {}) == std::pair(unused, false));
    CHECK(state_and_removal(closed, {.older_s = 0}) == std::pair(unused, true));
    // The files of a subfolder belong to a user, whatever their names are; steps are never removed.
    const std::filesystem::path folder = fmt::format("{}/{}", shm, own);
    std::filesystem::create_directories(folder / "global_step8");
    CHECK(state_and_removal(own + "/nccl-aB3dEf", {.older_s = 0}) == std::pair(unused, false));
    CHECK(state_and_removal(own + "/staged", {.name = "lm-test-*/staged", .older_s = 0}) ==
          std::pair(unused, true));
    CHECK(state_and_removal(own + "/global_step8/weights",
                            {.name = own + "/global_step8/*", .older_s = 0}) ==
          std::pair(unused, false));
    std::filesystem::remove_all(folder);
}

TEST_CASE("a selection of segments") {
    const Segment file{
        .name = "/dev/shm/run/a", .bytes = 10, .uid = 5, .changed = std::time(nullptr) - 100};
    const auto is_selected = [&](const SegmentSelection& selection) {
        return selects(selection, shm, file);
    };
    CHECK(is_selected({}));
    CHECK(is_selected({.name = "run/*"}));
    CHECK_FALSE(is_selected({.name = "*"}));
    CHECK(is_selected({.uid = 5}));
    CHECK_FALSE(is_selected({.uid = 6}));
    CHECK_FALSE(is_selected({.min_bytes = 11}));
    CHECK(is_selected({.older_s = 90}));
    CHECK_FALSE(is_selected({.older_s = 1000}));
    CHECK(selects({.name = "sysv:*"}, shm, {.system_v = true, .name = "sysv:7"}));
}

TEST_CASE("the memory of an unlinked file is listed") {
    if (!has_shm()) {
        WARN("skipped: no /dev/shm");
        return;
    }
    ShmFile file(1 << 16);
    unlink(file.path().c_str());
    const SharedMemory memory = read_shared_memory(shm);
    const Segment* segment = find(memory, file.path());
    REQUIRE(segment);
    CHECK(segment->deleted);
    CHECK(segment->bytes == 1 << 16);
    CHECK(segment->state == SegmentState::live);
}
