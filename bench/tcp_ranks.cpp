// SPDX-License-Identifier: Apache-2.0
// Measures the load of rank 0 of a large job without MPI: N ranks that connect over TCP, all on
// this machine, most of them as threads of a few processes.
//   ulimit -s 256; tcp_ranks N
// Wall and CPU time and memory are those of rank 0's process.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "comm/tcp/world.hpp"
#include "parallel/grid.hpp"
#include "parallel/hosts.hpp"
#include "parallel/together.hpp"

using namespace lm;

namespace {

constexpr int ranks_of_a_process = 2500;  // each rank has two threads and a connection
constexpr double timeout_s = 300;

double cpu_s() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double peak_mb() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_maxrss) / 1024;
}

void measure(bool tells, const char* what, int n_times, const std::function<void()>& call) {
    const Stopwatch watch;
    const double cpu_before = tells ? cpu_s() : 0;
    for (int i = 0; i < n_times; ++i) call();
    if (!tells) return;
    std::printf("%-34s wall %9.3f ms  cpu %9.3f ms  peak memory %6.0f MB\n", what,
                watch.elapsed_s() * 1e3 / n_times, (cpu_s() - cpu_before) * 1e3 / n_times,
                peak_mb());
    std::fflush(stdout);
}

void be_rank(const comm::Meeting& meeting) {
    const bool tells = meeting.rank == 0;
    std::unique_ptr<comm::TcpWorld> joined;
    measure(tells, "join", 1, [&] {
        joined =
            std::make_unique<comm::TcpWorld>(meeting, comm::LaunchOptions{.timeout_s = timeout_s});
        joined->join();
    });
    comm::Group& world = joined->world();
    std::array<double, 4> values{};
    measure(tells, "barrier", 5, [&] { world.barrier(); });
    measure(tells, "all_reduce of 4 numbers", 5, [&] {
        world.all_reduce({values.data(), DType::fp64, {4}}, comm::Reduction::max);
    });
    measure(tells, "together()", 2, [&] { parallel::together(world, [] {}); });
    measure(tells, "place_on_host()", 1, [&] { (void)parallel::place_on_host(world); });
    measure(tells, "groups of 8 tensor x 16 pipeline", 1, [&] {
        (void)parallel::make_grid(world, {.tp = 8, .pp = 16, .dp = meeting.size / 128});
    });
    measure(tells, "leave", 1, [&] { joined.reset(); });
}

}  // namespace

int main(int argc, char** argv) {
    const int n_ranks = argc > 1 ? std::atoi(argv[1]) / 128 * 128 : 1024;
    comm::Meeting meeting{.rank = 0, .size = n_ranks, .host = "127.0.0.1", .port = 0, .token = "b"};
    meeting.port = 20000 + static_cast<int>(getpid() % 12000);
    std::vector<pid_t> children;
    for (int first = 1; first < n_ranks; first += ranks_of_a_process) {
        const pid_t child = fork();
        if (child == 0) {
            std::vector<std::thread> ranks;
            for (int rank = first; rank < std::min(first + ranks_of_a_process, n_ranks); ++rank) {
                ranks.emplace_back([meeting, rank] {
                    comm::Meeting mine = meeting;
                    mine.rank = rank;
                    try {
                        be_rank(mine);
                    } catch (const std::exception& error) {
                        std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
                    }
                });
            }
            for (std::thread& rank : ranks) rank.join();
            _exit(0);
        }
        children.push_back(child);
    }
    try {
        be_rank(meeting);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "rank 0: %s\n", error.what());
    }
    for (const pid_t child : children) waitpid(child, nullptr, 0);
    return 0;
}
