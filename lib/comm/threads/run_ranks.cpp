// SPDX-License-Identifier: Apache-2.0
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
