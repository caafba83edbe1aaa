// SPDX-License-Identifier: Apache-2.0
// The table of System V segments, and real segments of this host, where it has /dev/shm.
#include "cluster/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "base/error.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::cluster;

namespace {

constexpr const char* shm = "/dev/shm";

bool has_shm() {
    return access(shm, R_OK | W_OK | X_OK) == 0;
}

// A file in /dev/shm, removed at the end.
class ShmFile {
  public:
    explicit ShmFile(i64 bytes) : path_(std::string(shm) + "/lm-test-" + std::to_string(getpid())) {
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
    const std::vector<Segment> segments = parse_system_v(
        "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  "
        "cgid"
        "      atime      dtime      ctime                   rss                  swap\n"
        "         0          7   600               1048576   123   124      2  1000  1000  1000  "
        "1000"
        " 1700000000          0 1700000001                  8192                     0\n"
        "         1          9   600               4096     5     5      0  0  0  0  0 1 2 3\n"
        "junk\n");
    REQUIRE(segments.size() == 2);
    CHECK(segments[0].name == "sysv:7");
    CHECK(segments[0].id == 7);
    CHECK(segments[0].bytes == 8192);
    CHECK(segments[0].creator == 123);
    CHECK(segments[0].uid == 1000);
    CHECK(segments[0].changed == 1700000001);
    CHECK(segments[1].bytes == 4096);  // kernels without the column rss
    CHECK(parse_system_v("").empty());
}

TEST_CASE("an error for a missing path names it") {
    try {
        io::filesystem_use("/nonexistent/shm");
        FAIL("no error");
    } catch (const Error& error) {
        CHECK(error.code() == Exit::failure);
        CHECK(std::string(error.what()) ==
              "/nonexistent/shm: cannot read the free space: No such file or directory");
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
    const Removal young = remove_if_dead(shm, *find(memory, file.path()), 3600);
    CHECK_FALSE(young.removed);
    CHECK(young.reason == "it changed less than 3600 s ago");
    CHECK(remove_if_dead(shm, *find(memory, file.path()), 0).removed);
    CHECK(access(file.path().c_str(), F_OK) != 0);
    CHECK(remove_if_dead(shm, *find(memory, file.path()), 0).reason == "it was removed already");
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
