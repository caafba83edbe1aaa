// SPDX-License-Identifier: Apache-2.0
// The inner loops of every instruction set of this processor, against fp64.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "base/rng.hpp"
#include "cpu/cpu_device.hpp"
#include "cpu/dropout.hpp"
#include "cpu/vector/vector_kernels.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::cpu;

namespace {

using Floats = std::vector<float>;

Floats random_floats(i64 n, u64 key) {
    Floats x(static_cast<size_t>(n));
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(normal(key, i));
    return x;
}

}  // namespace

TEST_CASE("the exponential is accurate over the whole range", "[ops]") {
    for (const VectorKernels* const kernels : all_vector_kernels()) {
        Floats x;
        for (double value = -87.0; value <= 0.0; value += 0.00313) {
            x.push_back(static_cast<float>(value));
        }
        Floats y = x;
        kernels->softmax_gradient(y.data(), static_cast<i64>(y.size()), 0.0F, 1.0F);
        double worst = 0;
        for (size_t i = 0; i < x.size(); ++i) {
            const double exact = std::exp(static_cast<double>(x[i]));
            worst = std::max(worst, std::abs(y[i] - exact) / exact);
        }
        INFO(kernels->name);
        CHECK(worst < 1.5 * 0x1p-23);
        // Results below the smallest normal number are zero. NaN stays NaN.
        Floats special{-90.0F, -INFINITY, NAN};
        kernels->softmax_gradient(special.data(), 3, 0.0F, 1.0F);
        CHECK(special[0] == 0.0F);
        CHECK(special[1] == 0.0F);
        CHECK(std::isnan(special[2]));
    }
}

namespace {

void check_gelu(device::Activation kind, const ActivationLoops& loops) {
    double error = 0;
    double slope_error = 0;
    double relative = 0;  // largest relative error of the small values at negative arguments
    for (double value = -12.0; value <= 12.0; value += 0.00171) {
        float pre = static_cast<float>(value);
        float gelu = 0;
        float slope = 1;
        loops.forward(&pre, nullptr, &gelu, 1);
        loops.backward(&pre, &slope, 1);
        const double difference = std::abs(gelu - activation_value(kind, pre));
        error = std::max(error, difference / std::max(1.0, std::abs(value)));
        slope_error = std::max(slope_error, std::abs(slope - activation_slope(kind, pre)));
        // Below -4 the expected value itself is inexact: its formula with erf in fp64 cancels.
        if (value > -4 && value < -0.01) {
            relative = std::max(relative, difference / -activation_value(kind, pre));
        }
    }
    CHECK(error < 2e-7);
    CHECK(slope_error < 1e-6);
    CHECK(relative < 2e-6);
    for (float value : {0.0F, 100.0F, -100.0F, 1e30F, INFINITY}) {
        float gelu = -1;
        const float bias = 0;
        float pre = value;
        loops.forward(&pre, &bias, &gelu, 1);
        CHECK(gelu == Approx(std::max(0.0F, value)).margin(1e-30));
        float slope = 1;
        loops.backward(&value, &slope, 1);
        if (value <= 100) CHECK(slope == Approx(activation_slope(kind, value)).margin(1e-30));
    }
    float nan = NAN;
    loops.forward(&nan, nullptr, &nan, 1);
    CHECK(std::isnan(nan));
}

void check_gate(device::Activation kind, const GateLoops& loops) {
    Floats gate = random_floats(1003, 8);
    const Floats up = random_floats(1003, 9);
    const Floats dy = random_floats(1003, 10);
    for (float& x : gate) x *= 3;
    Floats y(gate.size());
    Floats dgate(gate.size());
    Floats dup(gate.size());
    const auto n = static_cast<i64>(gate.size());
    loops.forward(gate.data(), up.data(), y.data(), n);
    loops.backward(gate.data(), up.data(), dy.data(), dgate.data(), dup.data(), n);
    double error = 0;
    for (size_t i = 0; i < gate.size(); ++i) {
        const double value = activation_value(kind, gate[i]);
        const double slope = activation_slope(kind, gate[i]);
        error = std::max({error, std::abs(y[i] - value * up[i]), std::abs(dup[i] - value * dy[i]),
                          std::abs(dgate[i] - slope * up[i] * dy[i])});
    }
    CHECK(error < 5e-6);
}

}  // namespace

TEST_CASE("GELU in both forms is accurate over the whole range", "[ops]") {
    using enum device::Activation;
    for (const VectorKernels* const kernels : all_vector_kernels()) {
        INFO(kernels->name);
        for (const device::Activation kind : {gelu_tanh, gelu_erf}) {
            check_gelu(kind, kernels->activation(kind));
        }
        check_gate(geglu, kernels->gate(geglu));
        check_gate(geglu_tanh, kernels->gate(geglu_tanh));
    }
}

TEST_CASE("16-bit storage widens and rounds like base/dtype.hpp", "[ops]") {
    std::vector<u16> all(65536);
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<u16>(i);
    // Every 16-bit pattern, values between adjacent ones, ties, and values that overflow.
    Floats x = random_floats(1000, 5);
    for (const u16 bits : all) {
        for (const float value : {fp32_from_bf16(bits), fp32_from_fp16(bits)}) {
            u32 word = std::bit_cast<u32>(value);
            for (const u32 more : {0U, 1U, 0x7fffU, 0x8000U, 0x8001U, 0x0fffU, 0x1000U, 0x1001U}) {
                x.push_back(std::bit_cast<float>(word + more));
            }
        }
    }
    const auto same = [](float a, float b) {
        return std::bit_cast<u32>(a) == std::bit_cast<u32>(b) || (std::isnan(a) && std::isnan(b));
    };
    for (const VectorKernels* const kernels : all_vector_kernels()) {
        INFO(kernels->name);
        Floats wide(all.size());
        i64 wrong = 0;
        kernels->widen_bf16(wide.data(), reinterpret_cast<const Bf16*>(all.data()), 65536);
        for (size_t i = 0; i < all.size(); ++i) wrong += !same(wide[i], fp32_from_bf16(all[i]));
        kernels->widen_fp16(wide.data(), reinterpret_cast<const Fp16*>(all.data()), 65536);
        for (size_t i = 0; i < all.size(); ++i) wrong += !same(wide[i], fp32_from_fp16(all[i]));
        CHECK(wrong == 0);
        std::vector<u16> bits(x.size());
        const auto n = static_cast<i64>(x.size());
        kernels->narrow_bf16(reinterpret_cast<Bf16*>(bits.data()), x.data(), n);
        for (size_t i = 0; i < x.size(); ++i) {
            wrong += !same(fp32_from_bf16(bits[i]), fp32_from_bf16(bf16_from_fp32(x[i])));
        }
        kernels->narrow_fp16(reinterpret_cast<Fp16*>(bits.data()), x.data(), n);
        for (size_t i = 0; i < x.size(); ++i) {
            wrong += !same(fp32_from_fp16(bits[i]), fp32_from_fp16(fp16_from_fp32(x[i])));
        }
        CHECK(wrong == 0);
    }
}

TEST_CASE("dropout factors match their definition", "[ops]") {
    const DropoutMask mask(0.3, 42, 5, 2);
    const u64 sample = (u64{3} << 32) + 11;
    for (const VectorKernels* const kernels : all_vector_kernels()) {
        for (const i64 first : {0, 3, 8, 1021}) {
            const i64 n = 1500;
            Floats factors(static_cast<size_t>(n), NAN);
            kernels->dropout_factors(mask.key(), sample, static_cast<u64>(first), mask.threshold(),
                                     static_cast<float>(mask.scale()), factors.data(), n);
            i64 wrong = 0;
            for (i64 i = 0; i < n; ++i) {
                const double expected = mask.factor(static_cast<i64>(sample), first + i);
                wrong += factors[static_cast<size_t>(i)] != static_cast<float>(expected);
            }
            CHECK(wrong == 0);
        }
    }
}

TEST_CASE("an operation with too little workspace is a bug", "[ops]") {
    const auto device = make_device(1);
    const device::Buffer workspace = device->allocate(64, "workspace");
    const device::Buffer data = device->allocate(4096, "data");
    device::Context context{*device, workspace.view(DType::uint8, {64})};
    const device::View x = data.view(DType::fp32, {8, 8});
    CHECK_THROWS_WITH(device::linear_forward(context, {x, x, {}, x, {}, {}}),
                      ContainsSubstring("workspace"));
}
