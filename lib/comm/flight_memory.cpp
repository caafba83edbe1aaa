// SPDX-License-Identifier: Apache-2.0
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
