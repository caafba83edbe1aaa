// SPDX-License-Identifier: Apache-2.0
// Why ranks can be threads, and why their time can be virtual.
//
// All code above comm::Group is the same for each backend, so the question is where most tests of
// it run. Trainers are usually tested under their launcher: torchrun or mpirun starts processes, on
// as many GPUs as the layout needs. Such a test starts slowly, cannot be stepped through in a
// debugger, shows a race to no sanitizer because each process is alone, and sees the memory of one
// rank only.
//
// As threads, eight ranks are a function call. tests/parallel/layouts_test.cpp trains every pair of
// settings of a layout (tensor, pipeline and data parallelism, ZeRO, recomputation and others), for
// three architectures, as a unit test, and compares losses, gradient norms and weights with those
// of one rank. The thread and address sanitizers see all ranks at once.
//
// This backend is stricter than the others where they are lenient by accident:
//
// - A send always waits for its receive. MPI buffers small messages, so an exchange that can
//   deadlock passes with a small model and hangs with a large one. Here it hangs with any, until
//   the timeout reports it.
// - Operations that do not match are always an error that names both; MPI checks on request.
// - Sums have the order of the members, so that two runs can be compared bitwise.
//
// Costs and limits. Globals are shared: state that should exist once for a rank must be a member of
// an object that the rank owns. It does not show what belongs to processes: signals, exit codes, a
// rank that is killed, memory of a host, the libraries themselves. Those have tests under mpirun,
// torchrun and Slurm (tests/e2e), and tests/comm/conformance.cpp runs the same cases on every
// backend, so that what passes on threads means something for MPI.
//
// Virtual time answers another question: whether communication is hidden behind computation. On a
// shared machine a measurement of that is noise, and a limit on it a test that fails on a busy day.
// With a clock for each rank the real StageTransfers and DataParallel run on links of a given
// latency and bandwidth, and tests/parallel/schedule_time_test.cpp requires the idle time of up to
// 64 stages to be within 2 % of the formula. The result is the same on every machine, and takes
// milliseconds. bench/node_check.cpp plays 1000 hosts in the same way.
//
// The model has no congestion, because channels do not share bandwidth. Whoever needs that, for
// example for a study of rings across switches, must give channels a common link; a simulator of
// networks was not wanted.
#include "comm/threads/run_ranks.hpp"

#include <thread>

#include "base/error.hpp"
#include "comm/threads/group.hpp"

namespace lm::comm {
namespace {

void run_rank(ThreadsWorld& world, const std::shared_ptr<Hub>& hub, int rank,
              const std::function<void(Group& world)>& body) {
    try {
        ThreadsGroup group(hub, rank);
        body(group);
    } catch (const std::exception& error) {
        world.fail("rank " + std::to_string(rank) + " gave up: " + error.what(),
                   std::current_exception());
    } catch (...) {
        world.fail("rank " + std::to_string(rank) + " gave up", std::current_exception());
    }
    world.rank_ended(rank);  // after fail(), so that other ranks see the failure first
}

void run(int n_ranks, VirtualTime* time, const std::function<void(Group& world)>& body,
         const ThreadsOptions& options) {
    LM_CHECK(n_ranks >= 1, "expected n_ranks >= 1, got {}", n_ranks);
    ThreadsWorld world(n_ranks, options.timeout_s);
    std::vector<int> members(static_cast<size_t>(n_ranks));
    for (int rank = 0; rank < n_ranks; ++rank) members[static_cast<size_t>(rank)] = rank;
    const auto hub = std::make_shared<Hub>(world, time, "world", std::move(members));
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < n_ranks; ++rank) {
        threads.emplace_back([&, rank] { run_rank(world, hub, rank, body); });
    }
    threads.clear();  // joins the threads
    if (const std::exception_ptr first = world.first_exception()) std::rethrow_exception(first);
}

}  // namespace

void run_ranks(int n_ranks, const std::function<void(Group& world)>& body,
               const ThreadsOptions& options) {
    run(n_ranks, nullptr, body, options);
}

void run_ranks_in_virtual_time(int n_ranks, const LinkModel& links,
                               const std::function<void(Group& world, VirtualClock& clock)>& body,
                               const ThreadsOptions& options) {
    VirtualTime time{links, std::vector<double>(static_cast<size_t>(n_ranks))};
    const auto ranked = [&](Group& world) {
        VirtualClock clock(time.now_s[static_cast<size_t>(world.rank())]);
        body(world, clock);
    };
    run(n_ranks, &time, ranked, options);
}

}  // namespace lm::comm
