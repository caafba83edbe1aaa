// SPDX-License-Identifier: Apache-2.0
// NCCL groups as they must be: the suite of all groups on device memory, ranks as threads with a
// GPU each. With fewer GPUs than ranks, or no NCCL, a case is left out and says so.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <numeric>

#include "base/error.hpp"
#include "comm/conformance.hpp"
#include "comm/on_device.hpp"
#include "comm/threads/run_ranks.hpp"
#include "skip.hpp"
#include "train/open_device.hpp"

using namespace lm;

namespace {

// Each rank with its device and a group of NCCL over the threads' one.
void run_with_gpus(int n_ranks, double timeout_s,
                   const std::function<void(comm::Group& world, device::Device& device)>& body) {
    const cuda::Plugin& plugin = train::cuda_plugin();
    comm::run_ranks(n_ranks, [&](comm::Group& host) {
        const std::unique_ptr<device::Device> device = plugin.open_device(host.rank());
        const std::unique_ptr<comm::Group> world =
            plugin.join(*device, host.split(0, host.rank(), "world"), timeout_s);
        body(*world, *device);
    });
}

// Why NCCL cannot be opened, if that is so.
std::string why_no_nccl() {
    try {
        run_with_gpus(2, 60, [](comm::Group&, device::Device&) {});
    } catch (const Error& error) {
        if (std::string_view(error.what()).find("cannot be opened") == std::string::npos) throw;
        return error.what();
    }
    return "";
}

// False, with a word, where a case of `n_ranks` is left out.
bool can_have(int n_ranks) {
    const int n_gpus = train::cuda_plugin().count_devices(2);
    if (n_gpus < n_ranks) {
        test::leave_out(fmt::format(
            "{} ranks want a GPU each, here are {}; two ranks on one GPU: stage `ranks` of gpu.sh",
            n_ranks, n_gpus));
        return false;
    }
    static const std::string without = why_no_nccl();
    if (!without.empty()) test::leave_out(without);
    return without.empty();
}

void conform(int n_ranks) {
    for (const test::ConformanceCase& c : test::conformance_cases()) {
        INFO(c.name << " on " << n_ranks << " ranks");
        CHECK_NOTHROW(run_with_gpus(n_ranks, 60, [&](comm::Group& world, device::Device& device) {
            test::OnDevice on_device(world.split(0, world.rank(), "world"), device);
            c.body(on_device);
        }));
    }
}

}  // namespace

TEST_CASE("NCCL groups do what all groups do", "[nccl]") {
    const int n_ranks = GENERATE(2, 4);
    if (can_have(n_ranks)) conform(n_ranks);
}

TEST_CASE("a group of one rank and its GPU does what all groups do, without NCCL", "[one_rank]") {
    conform(1);
}

TEST_CASE("host memory goes on over the host's group", "[nccl]") {
    if (!can_have(2)) return;
    for (const test::ConformanceCase& c : test::conformance_cases()) {
        INFO(c.name);
        CHECK_NOTHROW(
            run_with_gpus(2, 60, [&](comm::Group& world, device::Device&) { c.body(world); }));
    }
}

// The receive would overwrite what is being sent, if it did not wait for the message.
TEST_CASE("a receive behind a message into the same place", "[nccl]") {
    if (!can_have(2)) return;
    run_with_gpus(2, 60, [](comm::Group& world, device::Device& device) {
        const int other = 1 - world.rank();
        world.connect({.to = {other}, .from = {other}});
        constexpr i64 n = 1000;
        const device::Buffer buffer = device.allocate(2 * n * 4, "a test");
        const device::View x = buffer.view(0, DType::fp32, {n});
        const device::View y = buffer.view(n * 4, DType::fp32, {n});
        std::vector<float> host(n);
        std::iota(host.begin(), host.end(), static_cast<float>(1000 * world.rank()));
        device.copy_from_host(x, host.data());
        comm::Work sent, received;
        if (world.rank() == 0) {
            sent = world.start_send(x, other);
            CHECK(sent.is_stream_ordered());
            received = world.start_receive(x, other, sent);
        } else {
            sent = world.start_send(x, other);  // before it takes the other's
            received = world.start_receive(y, other);
        }
        sent.wait();
        received.wait();
        device.copy_to_host(host.data(), world.rank() == 0 ? x : y);
        CHECK(host[7] == static_cast<float>(1000 * other + 7));
    });
}

TEST_CASE("what a group was not prepared for is a bug", "[nccl]") {
    if (!can_have(2)) return;
    run_with_gpus(2, 60, [](comm::Group& world, device::Device& device) {
        const device::Buffer buffer = device.allocate(64, "a test");
        const device::View x = buffer.view(0, DType::fp32, {16});
        CHECK_THROWS_WITH(world.all_reduce(x), Catch::Contains("was not prepared"));
        CHECK_THROWS_WITH(world.start_send(x, 1 - world.rank()),
                          Catch::Contains("was not prepared"));
    });
}
