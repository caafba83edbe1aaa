// SPDX-License-Identifier: Apache-2.0
// Why a recorder in memory that other processes can read.
//
// A job of a thousand ranks that hangs shows a thousand ranks that wait. The one that matters is
// the rank for which they wait, and it says nothing: it is stopped, in the kernel, in a library, or
// on a machine that is gone. Asked for its state it does not answer, and a debugger on the right
// node, at night, before the scheduler ends the job, is not a plan. So each rank writes down all
// the time what it does, in a place that survives its silence.
//
// PyTorch's FlightRecorder keeps the last collectives of NCCL in the process, and a thread of this
// process writes them to a file after a timeout. That covers a thread that hangs in a collective.
// It does not cover a process that was stopped by a signal or by the freezer of a cgroup, because
// all of its threads are stopped. Here the memory is an anonymous file that is mapped
// (memfd_create()), and any rank of the same host and user may map it through /proc and write the
// dump for the silent one. And phases of a step are recorded next to operations, since a rank that
// reads data or saves for ten minutes hangs in no collective.
//
// - Not a file in /dev/shm: it would stay after a kill, and need a name that is unique among jobs.
//   The system frees an anonymous file with the process.
// - Not a log: writing a line for each operation of each micro-batch costs system calls in the
//   inner loop, and the last lines, the interesting ones, are in a buffer of a process that does
//   not run.
// - Not stack traces: they need symbols and a ptrace permission, and a stack of MPI's progress loop
//   looks the same in every wait. A number of an operation in a group can be compared between
//   ranks, and the first difference is the rank that diverged (hang_story.hpp).
//
// Recording is always on, because nobody can switch it on before the failure. So it must cost
// nothing that a step would show: an event is one atomic addition and some stores, with no lock, no
// allocation and no formatting. 1,024 events of 64 bytes are kept, and the current phase and wait
// separately, because a wait may be older than the ring. Memory that another process reads can hold
// no pointers, so names are copied once into tables of fixed size.
//
// The reader must not trust what it reads: the writer may have been stopped between two stores.
// Each slot has a sequence number that is checked before and after the copy.
//
// Limits. Ranks in separate PID namespaces, as containers often have them, do not see each other in
// /proc, so each can only write its own dump. A lost machine takes its recorders with it, and then
// only the others' waits tell. What a GPU does is not recorded, only which operations were enqueued
// for it. The timeouts of operations do not need the recorder; it makes their messages useful.
#include "comm/flight_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string>
#include <system_error>

#include "io/file.hpp"

namespace lm::comm {
namespace {

namespace fs = std::filesystem;

constexpr const char* memory_name = "lm-flight-recorder";

MappedRing map_ring(const std::string& path) {
    const io::Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.valid() || lseek(fd.get(), 0, SEEK_END) < static_cast<off_t>(sizeof(FlightRing))) {
        return nullptr;
    }
    void* const memory = mmap(nullptr, sizeof(FlightRing), PROT_READ, MAP_SHARED, fd.get(), 0);
    return MappedRing(memory == MAP_FAILED ? nullptr : static_cast<const FlightRing*>(memory));
}

bool is_number(const std::string& text) {
    return std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

}  // namespace

void* map_new_ring() {
    const int fd = memfd_create(memory_name, MFD_CLOEXEC);
    if (fd < 0) return nullptr;
    void* memory = MAP_FAILED;
    if (ftruncate(fd, sizeof(FlightRing)) == 0) {
        memory = mmap(nullptr, sizeof(FlightRing), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    if (memory != MAP_FAILED) return memory;
    close(fd);
    return nullptr;
}

void UnmapRing::operator()(const FlightRing* ring) const {
    munmap(const_cast<FlightRing*>(ring), sizeof(FlightRing));
}

std::vector<MappedRing> rings_on_host(i64 run) {
    std::vector<MappedRing> rings;
    const std::string wanted = std::string("/memfd:") + memory_name;
    std::error_code error;  // set when /proc cannot be read; ends the search
    for (fs::directory_iterator process("/proc", error), end; process != end && !error;
         process.increment(error)) {
        if (!is_number(process->path().filename())) continue;
        std::error_code unreadable;  // set when the process is another user's, or has ended
        for (fs::directory_iterator file(process->path() / "fd", unreadable);
             !unreadable && file != end; file.increment(unreadable)) {
            std::error_code closed;
            if (!fs::read_symlink(file->path(), closed).string().starts_with(wanted)) continue;
            MappedRing ring = map_ring(file->path());
            if (ring && ring->magic == FlightRing::expected_magic && ring->run == run) {
                rings.push_back(std::move(ring));
            }
            break;  // a process has one recorder
        }
    }
    return rings;
}

}  // namespace lm::comm
