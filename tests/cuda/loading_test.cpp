// SPDX-License-Identifier: Apache-2.0
// Tests the loading of code by a library, at the first use of an algorithm, while a receive waits
// for its message. Runs in a separate process with EMULATED_CUDA_LOADING=1, which makes the
// emulated GPU as strict as a driver may be: such a load waits until all streams of the GPU are
// empty.
#include <cstdlib>
#include <functional>

#include "base/error.hpp"
#include "comm/threads/run_ranks.hpp"
#include "device/ops.hpp"
#include "support/catch.hpp"
#include "train/start/open_device.hpp"

using namespace lm;
using device::View;

namespace {

// Operations whose code is loaded at the first use. All operands are in `memory`, bf16. A size is
// used by one test only, because loaded code stays loaded.
class FirstUse {
  public:
    explicit FirstUse(device::Device& device)
        : memory_(device.allocate(4 * part, "a test")),
          workspace_(device.allocate(i64{40} << 20, "workspace")),
          context_{device, workspace_.view(DType::uint8, {workspace_.bytes()})} {
        (void)device.use_cudnn(true);
    }
    void product(i64 n) {
        device::linear_forward(
            context_, {.x = at(0, {n, 8}), .w = at(1, {8, 8}), .bias = {}, .y = at(2, {n, 8})});
    }
    void attention(i64 n) {
        const View lse = memory_.view(3 * part, DType::fp32, {1, 1, n});
        device::attention_forward(context_, {.qkv = at(0, {1, n, 3 * 8}),
                                             .out = at(1, {1, n, 8}),
                                             .lse = lse,
                                             .n_heads = 1,
                                             .n_groups = 1,
                                             .head_dim = 8,
                                             .scale = 1.0});
    }

  private:
    static constexpr i64 part = 4096;  // bytes
    View at(i64 index, const Shape& shape) const {
        return memory_.view(index * part, DType::bf16, shape);
    }

    device::Buffer memory_;
    device::Buffer workspace_;
    device::Context context_;
};

using Use = std::function<void(FirstUse&)>;

// Each of two ranks posts a receive. Rank 0 then calls `use` and sends a message. Rank 1 sends only
// after it has received that message, like the next stage of a pipeline. With `warm_up`, rank 0
// also calls `use` before the ranks connect. Throws if an operation takes longer than timeout_s.
void exchange(const Use& use, bool warm_up, double timeout_s) {
    const cuda::Plugin& plugin = train::cuda_plugin();
    comm::run_ranks(2, [&](comm::Group& host) {
        const std::unique_ptr<device::Device> device = plugin.open_device(host.rank());
        const int other = 1 - host.rank();
        FirstUse operations(*device);
        if (host.rank() == 0 && warm_up) use(operations);
        const std::unique_ptr<comm::Group> world =
            plugin.join(*device, host.split(0, host.rank(), "world"), timeout_s);
        world->connect({.to = {other}, .from = {other}});
        const device::Buffer messages = device->allocate(128, "messages");
        const View in = messages.view(0, DType::fp32, {16});
        const View out = messages.view(64, DType::fp32, {16});
        comm::Work received = world->start_receive(in, other);
        if (host.rank() == 0) {
            use(operations);
        } else {
            received.wait();
        }
        comm::Work sent = world->start_send(out, other);
        received.wait();
        sent.wait();
        device->synchronize();
    });
}

}  // namespace

TEST_CASE("code loaded after a receive is posted hangs", "[.loading]") {
    REQUIRE(std::getenv("EMULATED_CUDA_LOADING") != nullptr);
    CHECK_THROWS_WITH(exchange([](FirstUse& first) { first.product(16); }, false, 3),
                      ContainsSubstring("timed out after"));
    CHECK_THROWS_WITH(exchange([](FirstUse& first) { first.attention(16); }, false, 3),
                      ContainsSubstring("timed out after"));
}

TEST_CASE("code loaded before the ranks connect does not hang", "[.loading]") {
    CHECK_NOTHROW(exchange([](FirstUse& first) { first.product(24); }, true, 60));
    CHECK_NOTHROW(exchange([](FirstUse& first) { first.attention(24); }, true, 60));
    // Another size needs other code.
    i64 n = 32;
    CHECK_THROWS_WITH(exchange([&n](FirstUse& first) { first.product(n += 8); }, true, 3),
                      ContainsSubstring("timed out after"));
}
