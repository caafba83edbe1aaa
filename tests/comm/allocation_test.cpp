// SPDX-License-Identifier: Apache-2.0
// After the first rounds no operation of the threads backend, the self group or a flight recorder
// allocates. Sanitizers replace operator new themselves, so nothing is counted under them.
#if !defined(LM_SANITIZED)
#include <array>
#include <atomic>
#include <cstdlib>
#include <new>

#include "comm/threads/run_ranks.hpp"
#include "support/catch.hpp"

namespace {

std::atomic<bool> counting{false};
std::atomic<lm::i64> n_allocations{0};

}  // namespace

// Both new and delete are replaced, by malloc and free, so they match.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

void* operator new(std::size_t size) {
    if (counting) ++n_allocations;
    if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
    throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}

using namespace lm;
using namespace lm::comm;

namespace {

constexpr i64 n = 3000;
constexpr int n_ranks = 4;

// All operations that a training step uses, several of them pending at once.
void round_of(Group& world, Group& pair, std::vector<float>& data) {
    const View all{data.data(), DType::fp32, {n * n_ranks}};
    const View part = all.rows(world.rank() * n, (world.rank() + 1) * n);
    world.reduce_scatter(all, part);
    world.all_gather(part, all);
    std::array<Work, 8> works;
    for (Work& work : works) work = pair.start_all_reduce(part, Reduction::max);
    for (Work& work : works) {
        while (!work.done()) work.wait();
    }
    world.broadcast(part, 2);
    const int next = (world.rank() + 1) % n_ranks;
    const int previous = (world.rank() + n_ranks - 1) % n_ranks;
    Work sent = world.start_send(part, next);
    Work received = world.start_receive(all.rows(0, n), previous);
    received.wait();
    sent.wait();
    world.barrier();
}

}  // namespace

TEST_CASE("operations allocate nothing after the first rounds") {
    run_ranks(n_ranks, [](Group& world) {
        FlightRecorder recorder;
        world.record_to(&recorder);
        const std::unique_ptr<Group> pair = world.split(world.rank() / 2, 0, "pair");
        std::vector<float> data(n * n_ranks, 1.0F);
        for (int round = 0; round < 20; ++round) round_of(world, *pair, data);
        if (world.rank() == 0) counting = true;
        world.barrier();
        for (int round = 0; round < 50; ++round) round_of(world, *pair, data);
        world.barrier();
        if (world.rank() == 0) counting = false;
        world.barrier();
    });
    CHECK(n_allocations == 0);
}
#endif
