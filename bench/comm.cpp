// SPDX-License-Identifier: Apache-2.0
// Measures collectives: wall and CPU time of the slowest rank.
//   bench_comm threads N     ranks as threads
//   mpirun -n N bench_comm mpi [M]   comm::Group over MPI; at most M elements a call
//   mpirun -n N bench_comm raw   MPI's blocking calls, for comparison
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "comm/join/join.hpp"
#include "comm/threads/run_ranks.hpp"
#ifdef LM_BENCH_MPI
#include <mpi.h>
#endif

using namespace lm;

namespace {

constexpr i64 large_bytes = 100'000'000;

double cpu_s() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

struct Rank {
    int rank;
    int size;
    std::function<void(float* x, i64 n)> all_reduce;
    std::function<void(float* all, i64 n_part)> reduce_scatter;  // in place
    std::function<void(float* all, i64 n_part)> all_gather;      // in place
    std::function<void(double* x, int n)> max;
    std::function<void()> barrier;
};

// Prints the wall and CPU time of a call, the best of several rounds. A round has at most `n` calls
// and takes about 0.2 s; its time is that of its slowest rank.
void measure(const Rank& r, const char* what, int n, const std::function<void()>& call) {
    constexpr int n_rounds = 5;
    constexpr double round_s = 0.2;
    call();
    r.barrier();
    const Stopwatch one;
    call();
    double call_s = one.elapsed_s();
    r.max(&call_s, 1);
    n = std::clamp(static_cast<int>(round_s / call_s), 1, n);
    double best_wall = 1e30;
    double best_cpu = 1e30;
    for (int round = 0; round < n_rounds; ++round) {
        r.barrier();
        const Stopwatch watch;
        const double cpu_start = cpu_s();
        for (int i = 0; i < n; ++i) call();
        double times[2] = {watch.elapsed_s() / n, (cpu_s() - cpu_start) / n};
        r.max(times, 2);
        best_wall = std::min(best_wall, times[0]);
        best_cpu = std::min(best_cpu, times[1]);
    }
    if (r.rank == 0) {
        std::printf("%-24s %2d ranks  wall %10.3f ms  cpu %10.3f ms\n", what, r.size,
                    best_wall * 1e3, best_cpu * 1e3);
    }
}

void run(const Rank& r) {
    const i64 n_part = large_bytes / 4 / r.size;
    std::vector<float> x(static_cast<size_t>(n_part * r.size), 1.0F);
    measure(r, "all_reduce 8 B", 2000, [&] { r.all_reduce(x.data(), 2); });
    measure(r, "barrier", 2000, [&] { r.barrier(); });
    measure(r, "all_reduce 100 MB", 3, [&] { r.all_reduce(x.data(), n_part * r.size); });
    measure(r, "reduce_scatter 100 MB", 3, [&] { r.reduce_scatter(x.data(), n_part); });
    measure(r, "all_gather 100 MB", 3, [&] { r.all_gather(x.data(), n_part); });
}

Rank of_group(comm::Group& group) {
    const auto view = [](float* x, i64 n) { return device::View{x, DType::fp32, {n}}; };
    const int rank = group.rank();
    const int size = group.size();
    return {rank,
            size,
            [&group, view](float* x, i64 n) { group.all_reduce(view(x, n)); },
            [&group, view, rank, size](float* all, i64 n) {
                group.reduce_scatter(view(all, n * size), view(all + rank * n, n));
            },
            [&group, view, rank, size](float* all, i64 n) {
                group.all_gather(view(all + rank * n, n), view(all, n * size));
            },
            [&group](double* x, int n) {
                group.all_reduce({x, DType::fp64, {n}}, comm::Reduction::max);
            },
            [&group] { group.barrier(); }};
}

#ifdef LM_BENCH_MPI
void run_raw() {
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
    int rank = 0;
    int size = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    run({rank, size,
         [](float* x, i64 n) {
             MPI_Allreduce(MPI_IN_PLACE, x, static_cast<int>(n), MPI_FLOAT, MPI_SUM,
                           MPI_COMM_WORLD);
         },
         [](float* all, i64 n) {
             MPI_Reduce_scatter_block(MPI_IN_PLACE, all, static_cast<int>(n), MPI_FLOAT, MPI_SUM,
                                      MPI_COMM_WORLD);
         },
         [](float* all, i64 n) {
             MPI_Allgather(MPI_IN_PLACE, 0, MPI_FLOAT, all, static_cast<int>(n), MPI_FLOAT,
                           MPI_COMM_WORLD);
         },
         [](double* x, int n) {
             MPI_Allreduce(MPI_IN_PLACE, x, n, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
         },
         [] { MPI_Barrier(MPI_COMM_WORLD); }});
    MPI_Finalize();
}
#endif

}  // namespace

int main(int argc, char** argv) {
    const std::string mode = argc > 1 ? argv[1] : "";
    if (mode == "threads" && argc == 3) {
        comm::run_ranks(std::atoi(argv[2]), [](comm::Group& world) { run(of_group(world)); });
    } else if (mode == "mpi") {
        comm::LaunchOptions options;
        if (argc == 3) options.max_count = std::atoll(argv[2]);
        const std::unique_ptr<comm::Launch> launch = comm::launch(options);
        run(of_group(launch->world()));
#ifdef LM_BENCH_MPI
    } else if (mode == "raw") {
        run_raw();
#endif
    } else {
        std::fprintf(stderr,
                     "usage: bench_comm threads N | mpi [M] | raw (the last two under mpirun)\n");
        return 2;
    }
    return 0;
}
