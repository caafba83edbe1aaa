// SPDX-License-Identifier: Apache-2.0
// Runs the conformance suite of comm groups on NCCL groups in device memory. Ranks are threads with
// one GPU each. With fewer GPUs than ranks, or without NCCL, cases are skipped.
#include <fmt/format.h>

#include <numeric>

#include "base/error.hpp"
#include "comm/conformance.hpp"
#include "comm/on_device.hpp"
#include "comm/threads/run_ranks.hpp"
#include "skip.hpp"
#include "support/catch.hpp"
#include "train/start/open_device.hpp"

using namespace lm;

namespace {

// Runs body on each rank with its device and an NCCL group over the thread group.
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

// Returns the reason when NCCL cannot be opened, else an empty string.
std::string why_no_nccl() {
    try {
        run_with_gpus(2, 60, [](comm::Group&, device::Device&) {});
    } catch (const Error& error) {
        if (std::string_view(error.what()).find("cannot open the library") == std::string::npos)
            throw;
        return error.what();
    }
    return "";
}

// Returns false and prints the reason when a case of `n_ranks` ranks must be skipped.
bool can_have(int n_ranks) {
    const int n_gpus = train::cuda_plugin().count_devices();
    if (n_gpus < n_ranks) {
        test::skip(fmt::format(
            "the case needs {} GPUs, one for each rank, but this machine has {}; stage `ranks` of "
            "tests/gpu.sh runs two ranks on one GPU",
            n_ranks, n_gpus));
        return false;
    }
    static const std::string without = why_no_nccl();
    if (!without.empty()) test::skip(without);
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

TEST_CASE("NCCL groups pass the conformance suite", "[nccl]") {
    const int n_ranks = GENERATE(2, 4);
    if (can_have(n_ranks)) conform(n_ranks);
}

TEST_CASE("a group of one rank passes the conformance suite without NCCL", "[one_rank]") {
    conform(1);
}

TEST_CASE("host memory is carried by the host group", "[nccl]") {
    if (!can_have(2)) return;
    for (const test::ConformanceCase& c : test::conformance_cases()) {
        INFO(c.name);
        CHECK_NOTHROW(
            run_with_gpus(2, 60, [&](comm::Group& world, device::Device&) { c.body(world); }));
    }
}

// If the receive did not wait for the send, it would overwrite the data that is being sent.
TEST_CASE("a receive after a send of the same memory waits for it", "[nccl]") {
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
            sent = world.start_send(x, other);  // before the receive starts
            received = world.start_receive(y, other);
        }
        sent.wait();
        received.wait();
        device.copy_to_host(host.data(), world.rank() == 0 ? x : y);
        CHECK(host[7] == static_cast<float>(1000 * other + 7));
    });
}

TEST_CASE("an operation that connect() did not announce is a bug", "[nccl]") {
    if (!can_have(2)) return;
    run_with_gpus(2, 60, [](comm::Group& world, device::Device& device) {
        const device::Buffer buffer = device.allocate(64, "a test");
        const device::View x = buffer.view(0, DType::fp32, {16});
        CHECK_THROWS_WITH(world.all_reduce(x), ContainsSubstring("connect()"));
        CHECK_THROWS_WITH(world.start_send(x, 1 - world.rank()), ContainsSubstring("connect()"));
    });
}
