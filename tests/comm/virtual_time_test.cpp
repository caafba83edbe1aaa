// SPDX-License-Identifier: Apache-2.0
// Virtual time of messages, collectives and computing, alone and overlapping.
#include <stdexcept>
#include <vector>

#include "comm/threads/run_ranks.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::comm;

namespace {

// Latency 1 s, 4 bytes per second.
constexpr LinkModel slow{.latency_s = 1, .bytes_per_s = 4};

std::vector<double> times(int n_ranks, const LinkModel& links,
                          const std::function<void(Group&, VirtualClock&)>& body) {
    std::vector<double> end_s(static_cast<size_t>(n_ranks));
    run_ranks_in_virtual_time(n_ranks, links, [&](Group& world, VirtualClock& clock) {
        body(world, clock);
        end_s[static_cast<size_t>(world.rank())] = clock.now_s();
    });
    return end_s;
}

View floats(std::vector<float>& x) {
    return {x.data(), DType::fp32, {static_cast<i64>(x.size())}};
}

}  // namespace

TEST_CASE("a message arrives after its transfer and the latency") {
    const auto end_s = times(3, slow, [](Group& world, VirtualClock& clock) {
        std::vector<float> x(5);
        if (world.rank() == 0) {
            clock.advance(10);
            world.send(floats(x), 1);  // leaves at 15
        } else if (world.rank() == 1) {
            world.receive(floats(x), 0);  // arrives at 16
            clock.advance(2);
            world.send(floats(x), 2);  // on the link from 18 s to 23 s
        } else {
            clock.advance(100);
            world.receive(floats(x), 1);  // arrived before
        }
    });
    CHECK(end_s == std::vector<double>{15, 23, 100});
}

TEST_CASE("messages of a pair share their channel, and overlap with computing") {
    const auto end_s = times(2, slow, [](Group& world, VirtualClock& clock) {
        std::vector<float> x(4);
        std::vector<float> y(4);
        const bool sends = world.rank() == 0;
        Work first = sends ? world.start_send(floats(x), 1) : world.start_receive(floats(x), 0);
        Work second = sends ? world.start_send(floats(y), 1) : world.start_receive(floats(y), 0);
        clock.advance(2);
        world.barrier();  // takes 1 s; the messages arrive later in virtual time
        if (first.done() || second.done()) throw std::runtime_error("done before its time");
        first.wait();
        second.wait();
    });
    CHECK(end_s == std::vector<double>{8, 9});
}

TEST_CASE("a collective begins with the last member, after the previous one of the group") {
    const LinkModel links{.latency_s = 0, .bytes_per_s = 4};
    const auto end_s = times(4, links, [](Group& world, VirtualClock& clock) {
        std::vector<float> x(8);
        std::vector<float> y(8);
        clock.advance(world.rank());
        // Each all-reduce takes 2 * 3 steps of 2 floats, 12 s: from 3 s to 15 s, and from 15 s to
        // 27 s.
        Work first = world.start_all_reduce(floats(x), Reduction::sum);
        Work second = world.start_all_reduce(floats(y), Reduction::sum);
        clock.advance(world.rank() == 0 ? 50 : 1);
        first.wait();
        if (world.rank() == 1) CHECK(clock.now_s() == 15);
        second.wait();
    });
    CHECK(end_s == std::vector<double>{50, 27, 27, 27});
}

TEST_CASE("each group has its own channel") {
    const LinkModel links{.latency_s = 0, .bytes_per_s = 4};
    const auto end_s = times(4, links, [](Group& world, VirtualClock&) {
        const std::unique_ptr<Group> pair = world.split(world.rank() / 2, 0, "pair");
        const std::unique_ptr<Group> other = world.split(world.rank() % 2, 0, "other");
        std::vector<float> in(6);
        std::vector<float> gathered(12);
        std::vector<float> x(6);
        Work first = pair->start_all_gather(floats(in), floats(gathered));  // 6 s
        Work second = other->start_all_reduce(floats(x), Reduction::sum);   // 2 steps of 3 s
        first.wait();
        second.wait();
    });
    CHECK(end_s == std::vector<double>(4, 6));
}

TEST_CASE("a pipeline of 64 stages takes the computed time in every run") {
    constexpr int n_stages = 64;
    constexpr int n_micro_batches = 20;
    const auto body = [](Group& world, VirtualClock& clock) {
        std::vector<float> x(4);
        for (int k = 0; k < n_micro_batches; ++k) {
            if (world.rank() > 0) world.receive(floats(x), world.rank() - 1);
            clock.advance(1);
            if (world.rank() + 1 < world.size()) world.send(floats(x), world.rank() + 1);
        }
    };
    const LinkModel none;
    const auto free_links = times(n_stages, none, body);
    for (int stage = 0; stage < n_stages; ++stage) {
        CHECK(free_links[static_cast<size_t>(stage)] == stage + n_micro_batches);
    }
    const LinkModel links{.latency_s = 0.25, .bytes_per_s = 64};
    const auto first = times(n_stages, links, body);
    // The first micro-batch reaches the last stage after 63 x (1 + 0.25 + 0.25); then one
    // every 1.25 s, since a stage sends before it continues to compute.
    CHECK(first.back() == 63 * 1.5 + 1 + (n_micro_batches - 1) * 1.25);
    CHECK(first == times(n_stages, links, body));
}
