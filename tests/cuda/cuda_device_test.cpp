// SPDX-License-Identifier: Apache-2.0
// Tests memory, copies and errors of the CUDA device, and operations on sizes that the list of
// operation cases does not have.

#include "base/error.hpp"
#include "base/rng.hpp"
#include "cpu/cpu_device.hpp"
#include "data/sampling/row_order.hpp"
#include "device/op_times.hpp"
#include "support/catch.hpp"
#include "train/start/open_device.hpp"

using namespace lm;
using device::View;

namespace {

std::unique_ptr<device::Device> open_gpu() {
    return train::cuda_plugin().open_device(0);
}

template <typename T>
std::vector<T> host_copy(device::Device& device, const View& view) {
    std::vector<T> values(static_cast<size_t>(view.numel()));
    device.copy_to_host(values.data(), view);
    return values;
}

// Returns tokens with a skewed distribution, as in text. Some tokens have no row in the table.
std::vector<i32> skewed_tokens(i64 n, i64 vocab) {
    std::vector<i32> tokens;
    for (i64 i = 0; i < n; ++i) {
        const double u = uniform(99, static_cast<u64>(i));
        tokens.push_back(static_cast<i32>(u < 0.4 ? 7 : u * u * static_cast<double>(vocab + 20)));
    }
    return tokens;
}

std::vector<float> embedding_gradient(device::Device& device, const std::vector<i32>& tokens,
                                      const std::vector<float>& dout, i64 vocab, i64 width) {
    const auto n = static_cast<i64>(tokens.size());
    const device::Buffer index = device.allocate(4 * n, "tokens");
    const device::Buffer order = device.allocate(4 * n, "order");
    const device::Buffer rows = device.allocate(4 * n * width, "dout");
    const device::Buffer table = device.allocate(4 * vocab * width, "dtable");
    const device::Buffer workspace = device.allocate(i64{4} << 20, "workspace");
    device.copy_from_host(index.view(DType::int32, {n}), tokens.data());
    std::vector<i32> ordered(tokens.size());
    data::order_rows(tokens, vocab + 20, ordered);
    device.copy_from_host(order.view(DType::int32, {n}), ordered.data());
    device.copy_from_host(rows.view(DType::fp32, {n, width}), dout.data());
    device::Context context{device, workspace.view(DType::uint8, {workspace.bytes()})};
    device::embedding_backward(context, {.tokens = index.view(DType::int32, {n}),
                                         .token_order = order.view(DType::int32, {n}),
                                         .dout = rows.view(DType::fp32, {n, width}),
                                         .dtable = table.view(DType::fp32, {vocab, width}),
                                         .vocab_start = 3});
    return host_copy<float>(device, table.view(DType::fp32, {vocab, width}));
}

}  // namespace

TEST_CASE("memory is zeroed, counted, and copied through the staging buffers", "[device]") {
    const auto gpu = open_gpu();
    constexpr i64 n = (i64{8} << 20) + 12345;  // more than both staging buffers
    const device::Buffer buffer = gpu->allocate(2 * n, "test");
    CHECK(gpu->allocated_bytes() == 2 * n);
    CHECK_FALSE(gpu->is_host());
    const View view = buffer.view(DType::uint16, {n});
    CHECK(host_copy<u16>(*gpu, view) == std::vector<u16>(n));
    std::vector<u16> values(n);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<u16>(i * 2654435761U >> 8);
    std::vector<u16> given = values;
    gpu->copy_from_host(view, given.data());
    std::fill(given.begin(), given.end(), u16{0});  // copy_from_host() has returned
    CHECK(host_copy<u16>(*gpu, view) == values);
    CHECK_THROWS_WITH(gpu->allocate(i64{1} << 50, "optimizer state"),
                      HasInOrder("optimizer state: ", "1.00 PiB", "cuda:0: ", " free"));
    device::Device& device = *gpu;
    device.synchronize();
}

TEST_CASE("many copies of all sizes arrive in order", "[device]") {
    const auto gpu = open_gpu();
    constexpr i64 n = 300;
    constexpr i64 most = 100000;
    const device::Buffer buffer = gpu->allocate(n * most, "test");
    std::vector<u8> expected(static_cast<size_t>(n * most));
    for (i64 i = 0; i < n; ++i) {
        const i64 size = 1 + (i * 7919) % most;
        std::vector<u8> values(static_cast<size_t>(size), static_cast<u8>(i + 1));
        gpu->copy_from_host(buffer.view(i * most, DType::uint8, {size}), values.data());
        std::copy(values.begin(), values.end(), expected.begin() + i * most);
        if (i % 100 == 50) {  // both directions share the staging buffers
            CHECK(host_copy<u8>(*gpu, buffer.view(i * most, DType::uint8, {size})) == values);
        }
    }
    CHECK(host_copy<u8>(*gpu, buffer.view(DType::uint8, {n * most})) == expected);
}

TEST_CASE("the embedding gradient is correct and reproducible for frequent tokens", "[ops]") {
    const auto [n, vocab, width] =
        GENERATE(std::tuple<i64, i64, i64>{5003, 300, 20},
                 std::tuple<i64, i64, i64>{2500, 70000, 7}, std::tuple<i64, i64, i64>{64, 1, 4});
    const std::vector<i32> tokens = skewed_tokens(n, vocab);
    std::vector<float> dout(static_cast<size_t>(n * width));
    for (size_t i = 0; i < dout.size(); ++i) dout[i] = static_cast<float>(normal(5, i));
    const auto gpu = open_gpu();
    const auto host = cpu::make_device(1);
    const std::vector<float> expected = embedding_gradient(*host, tokens, dout, vocab, width);
    const std::vector<float> got = embedding_gradient(*gpu, tokens, dout, vocab, width);
    double error = 0;
    for (size_t i = 0; i < got.size(); ++i) {
        error = std::max(error, std::abs(static_cast<double>(got[i]) - expected[i]));
    }
    CHECK(error < 1e-3);
    CHECK(embedding_gradient(*gpu, tokens, dout, vocab, width) == got);
}

// The emulator allocates physical memory only for the pages that are accessed.
TEST_CASE("offsets above 2^31 elements are computed in 64 bits", "[device]") {
    constexpr i64 far = i64{1} << 31;
    setenv("EMULATED_CUDA_MEMORY", "32768", 1);
    const auto gpu = open_gpu();
    const device::Buffer small = gpu->allocate(1 << 20, "test");
    device::Context context{*gpu, {}};
    const auto at = [&](i64 offset, DType type, const Shape& shape) {
        return small.view(offset, type, shape);
    };
    SECTION("a row of logits") {
        constexpr i64 width = far / 4 + 16;
        constexpr i64 rows = 5;
        constexpr i64 n_valid = 64;
        const device::Buffer logits = gpu->allocate(2 * rows * width, "test");
        const std::vector<u16> ones(n_valid, 0x3f80);  // bf16
        gpu->copy_from_host(logits.view(2 * (rows - 1) * width, DType::bf16, {n_valid}),
                            ones.data());
        const View most = at(4096, DType::fp32, {rows});
        const View sum = at(8192, DType::fp32, {rows});
        const View target = at(12288, DType::fp32, {rows});
        device::cross_entropy_stats(context, {.logits = logits.view(DType::bf16, {rows, width}),
                                              .targets = at(0, DType::int32, {rows}),
                                              .n_valid = n_valid,
                                              .row_max = most,
                                              .row_sum = sum,
                                              .target_logit = target});
        CHECK(host_copy<float>(*gpu, most) == std::vector<float>{0, 0, 0, 0, 1});
        CHECK(host_copy<float>(*gpu, sum) == std::vector<float>(rows, n_valid));
        CHECK(host_copy<float>(*gpu, target) == std::vector<float>{0, 0, 0, 0, 1});
    }
    SECTION("a row of an embedding") {
        constexpr i64 width = 32;
        constexpr i64 rows = far / width + 8;
        const device::Buffer table = gpu->allocate(2 * rows * width, "test");
        const std::vector<u16> row(width, 0x4000);
        gpu->copy_from_host(table.view(2 * (rows - 1) * width, DType::bf16, {width}), row.data());
        const auto last = static_cast<i32>(rows - 1);
        const View tokens = at(0, DType::int32, {1});
        const View out = at(4096, DType::bf16, {1, width});
        gpu->copy_from_host(tokens, &last);
        device::embedding_forward(
            context,
            {.tokens = tokens, .table = table.view(DType::bf16, {rows, width}), .out = out});
        CHECK(host_copy<u16>(*gpu, out) == row);
    }
    SECTION("parameters") {
        constexpr i64 n = far + 4096;
        const device::AdamWPart part{
            .param_begin = far + 1024, .state_begin = 0, .size = 256, .decay = false};
        const device::Buffer weights = gpu->allocate(4 * n, "test");
        const device::Buffer gradients = gpu->allocate(4 * n, "test");
        const std::vector<float> halves(256, 0.5F);
        const View updated = weights.view(4 * part.param_begin, DType::fp32, {part.size});
        gpu->copy_from_host(updated, halves.data());
        gpu->copy_from_host(gradients.view(4 * part.param_begin, DType::fp32, {part.size}),
                            halves.data());
        device::adamw(context, {.master = weights.view(DType::fp32, {n}),
                                .grad = gradients.view(DType::fp32, {n}),
                                .m = at(0, DType::fp32, {part.size}),
                                .v = at(4096, DType::fp32, {part.size}),
                                .parts = {&part, 1},
                                .lr = 0.25,
                                .config = {.weight_decay = 0}});
        for (const float value : host_copy<float>(*gpu, updated)) {
            CHECK(value == Approx(0.25));  // the first step is lr in the gradient's direction
        }
    }
    unsetenv("EMULATED_CUDA_MEMORY");
}

TEST_CASE("op times are added when the host waits", "[device]") {
    const auto gpu = open_gpu();
    const device::Buffer buffer = gpu->allocate(4096, "test");
    const View view = buffer.view(DType::fp32, {1024});
    device::OpTimes times;
    device::Context context{*gpu, {}, &times};
    device::fill(context, {.x = view, .value = 2});
    device::scale(context, {.x = view, .factor = 3});
    gpu->synchronize();
    CHECK(host_copy<float>(*gpu, view) == std::vector<float>(1024, 6));
    CHECK(times[device::Op::fill].calls == 1);
    CHECK(times[device::Op::fill].seconds > 0);
    CHECK(times[device::Op::scale].seconds > 0);
}

// The device is unusable afterwards, so this case runs in a separate process.
TEST_CASE("an error on the GPU names the operation", "[.fault]") {
    const auto gpu = open_gpu();
    const device::Buffer buffer = gpu->allocate(4096, "test");
    View outside = buffer.view(DType::fp32, {1024});
    outside.data = static_cast<std::byte*>(outside.data) + (i64{1} << 40);
    device::Context context{*gpu, {}};
    const auto use = [&] {
        device::scale(context, {.x = outside, .factor = 3});
        gpu->synchronize();
    };
    CHECK_THROWS_WITH(use(), HasInOrder("cuda:0: scale: ", "(cudaErrorIllegalAddress)"));
    CHECK_THROWS_WITH(gpu->synchronize(), ContainsSubstring("cudaErrorIllegalAddress"));
}
