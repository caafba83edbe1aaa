// SPDX-License-Identifier: Apache-2.0
// The device itself: memory, copies, errors; and what the list of operation cases is too small for.
#include <catch2/catch.hpp>

#include "base/error.hpp"
#include "base/rng.hpp"
#include "cpu/cpu.hpp"
#include "device/op_times.hpp"
#include "train/device.hpp"

using namespace lm;
using Catch::Matchers::Contains;
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

// Most tokens are few, as in text, and some are in no row of the table.
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
    const device::Buffer rows = device.allocate(4 * n * width, "dout");
    const device::Buffer table = device.allocate(4 * vocab * width, "dtable");
    const device::Buffer workspace = device.allocate(i64{4} << 20, "workspace");
    device.copy_from_host(index.view(DType::int32, {n}), tokens.data());
    device.copy_from_host(rows.view(DType::fp32, {n, width}), dout.data());
    device::Context context{device, workspace.view(DType::uint8, {workspace.bytes()})};
    device::embedding_backward(context, {.tokens = index.view(DType::int32, {n}),
                                         .dout = rows.view(DType::fp32, {n, width}),
                                         .dtable = table.view(DType::fp32, {vocab, width}),
                                         .vocab_start = 3});
    return host_copy<float>(device, table.view(DType::fp32, {vocab, width}));
}

}  // namespace

TEST_CASE("memory comes zeroed, is counted, and is copied in pieces", "[device]") {
    const auto gpu = open_gpu();
    constexpr i64 n = (i64{8} << 20) + 12345;  // more than two pieces of the staging memory
    const device::Buffer buffer = gpu->allocate(2 * n, "test");
    CHECK(gpu->allocated_bytes() == 2 * n);
    CHECK_FALSE(gpu->is_host());
    const View view = buffer.view(DType::uint16, {n});
    CHECK(host_copy<u16>(*gpu, view) == std::vector<u16>(n));
    std::vector<u16> values(n);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<u16>(i * 2654435761U >> 8);
    std::vector<u16> given = values;
    gpu->copy_from_host(view, given.data());
    std::fill(given.begin(), given.end(), u16{0});  // it may be used again at once
    CHECK(host_copy<u16>(*gpu, view) == values);
    CHECK_THROWS_WITH(
        gpu->allocate(i64{1} << 50, "optimizer state"),
        Contains("optimizer state: cannot allocate 1.00 PiB on cuda:0: ") && Contains(" are free"));
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
        if (i % 100 == 50) {  // both ways share the pinned memory
            CHECK(host_copy<u8>(*gpu, buffer.view(i * most, DType::uint8, {size})) == values);
        }
    }
    CHECK(host_copy<u8>(*gpu, buffer.view(DType::uint8, {n * most})) == expected);
}

TEST_CASE("the embedding's gradient is right and has the same bits for many tokens of few kinds",
          "[ops]") {
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

TEST_CASE("the times of operations come in when the host waits", "[device]") {
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

// The device is lost afterwards: this case runs in a process of its own.
TEST_CASE("what goes wrong on the GPU is told with the operation's name", "[.fault]") {
    const auto gpu = open_gpu();
    const device::Buffer buffer = gpu->allocate(4096, "test");
    View beside = buffer.view(DType::fp32, {1024});
    beside.data = static_cast<std::byte*>(beside.data) + (i64{1} << 40);
    device::Context context{*gpu, {}};
    const auto use = [&] {
        device::scale(context, {.x = beside, .factor = 3});
        gpu->synchronize();
    };
    CHECK_THROWS_WITH(use(), Contains("cuda:0: scale: an illegal memory access was encountered "
                                      "(cudaErrorIllegalAddress)"));
    CHECK_THROWS_WITH(gpu->synchronize(), Contains("cudaErrorIllegalAddress"));
}
