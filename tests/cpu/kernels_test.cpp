// SPDX-License-Identifier: Apache-2.0
// The inner loops of every instruction set of this processor, and both implementations of matrix
// products, against fp64.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "base/rng.hpp"
#include "cpu/activation.hpp"
#include "cpu/cpu_device.hpp"
#include "cpu/dropout.hpp"
#include "cpu/matmul.hpp"
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

// Numbers stored in some type, and their values.
struct Stored {
    Stored(const Floats& x, DType dtype) : type(dtype) {
        for (const float value : x) {
            if (type == DType::bf16) bits.push_back(bf16_from_fp32(value));
            if (type == DType::fp16) bits.push_back(fp16_from_fp32(value));
        }
        values = x;
        for (size_t i = 0; i < bits.size(); ++i) {
            values[i] = type == DType::bf16 ? fp32_from_bf16(bits[i]) : fp32_from_fp16(bits[i]);
        }
    }
    const void* data() const {
        return bits.empty() ? static_cast<const void*>(values.data()) : bits.data();
    }
    DType type;
    Floats values;
    std::vector<u16> bits;
};

constexpr DType storage_types[] = {DType::fp32, DType::bf16, DType::fp16};

// Returns element (i, j) of the product that Operands describes.
double product_at(const Operands& p, const Floats& a, const Floats& b, const float* before, i64 i,
                  i64 j) {
    double sum = p.accumulate ? before[i * p.ldc + j] : 0.0;
    for (i64 k = 0; k < p.k; ++k) {
        sum += static_cast<double>(a[static_cast<size_t>(i * p.a_row + k * p.a_col)]) *
               b[static_cast<size_t>(k * p.b_row + j * p.b_col)];
    }
    return sum;
}

void check_product(const VectorKernels& kernels, i64 m, i64 n, i64 k, bool a_turned, bool b_turned,
                   bool accumulate, DType type) {
    const Stored a(random_floats(m * k, 1), type);
    const Stored b(random_floats(k * n, 2), type);
    const Floats before = random_floats(m * (n + 3), 3);
    Floats c = before;
    Floats scratch(static_cast<size_t>(product_scratch_floats(n)), NAN);
    const Operands p{m,
                     n,
                     k,
                     a.data(),
                     a_turned ? 1 : k,
                     a_turned ? m : 1,
                     b.data(),
                     b_turned ? 1 : n,
                     b_turned ? k : 1,
                     c.data(),
                     n + 3,
                     accumulate,
                     type};
    kernels.product(p, scratch.data());
    double error = 0;
    bool beside = false;
    for (i64 i = 0; i < m; ++i) {
        for (i64 j = 0; j < n + 3; ++j) {
            const auto at = static_cast<size_t>(i * (n + 3) + j);
            if (j >= n) {
                beside = beside || c[at] != before[at];
            } else {
                error = std::max(error, std::abs(c[at] - product_at(p, a.values, b.values,
                                                                    before.data(), i, j)));
            }
        }
    }
    INFO(kernels.name << " " << m << " x " << n << " x " << k << " turned " << a_turned
                      << b_turned);
    CHECK_FALSE(beside);
    CHECK(error < 2e-6 * static_cast<double>(k + 10));
}

}  // namespace

TEST_CASE("packed products of odd sizes are correct", "[ops]") {
    for (const VectorKernels* const kernels : all_vector_kernels()) {
        for (const DType type : storage_types) {
            for (const bool accumulate : {false, true}) {
                for (const int form : {0, 1, 2}) {
                    const auto check = [&](i64 m, i64 n, i64 k) {
                        check_product(*kernels, m, n, k, form == 2, form == 0, accumulate, type);
                    };
                    check(1, 1, 1);
                    check(7, 17, 9);
                    check(101, 67, 261);
                    check(96, 64, 256);
                }
            }
        }
    }
}

TEST_CASE("small products and transposes are correct", "[ops]") {
    for (const VectorKernels* const kernels : all_vector_kernels()) {
        for (const i64 n : {1, 5, 16, 37, 64}) {
            const i64 m = 13;
            const i64 k = 11;
            const Floats a = random_floats(m * k, 1);
            const Floats b = random_floats(k * n, 2);
            Floats c(static_cast<size_t>(m * n), NAN);
            kernels->small_product(m, n, k, a.data(), k, 1, b.data(), n, c.data(), n, false);
            const Operands p{m, n, k, a.data(), k, 1, b.data(), n, 1, c.data(), n, false};
            double error = 0;
            for (i64 i = 0; i < m * n; ++i) {
                error = std::max(error, std::abs(c[static_cast<size_t>(i)] -
                                                 product_at(p, a, b, nullptr, i / n, i % n)));
            }
            CHECK(error < 1e-5);
            Floats turned(b.size(), NAN);
            kernels->transpose(k, n, b.data(), n, 2.0F, turned.data(), k);
            bool same = true;
            for (i64 i = 0; i < k * n; ++i) {
                same = same && turned[static_cast<size_t>(i % n * k + i / n)] ==
                                   2 * b[static_cast<size_t>(i)];
            }
            CHECK(same);
        }
    }
}

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

using Forward = void (*)(float*, const float*, float*, i64);
using Backward = void (*)(const float*, float*, i64);

void check_gelu(device::Activation kind, Forward forward, Backward backward) {
    double error = 0;
    double slope_error = 0;
    double relative = 0;  // largest relative error of the small values at negative arguments
    for (double value = -12.0; value <= 12.0; value += 0.00171) {
        float pre = static_cast<float>(value);
        float gelu = 0;
        float slope = 1;
        forward(&pre, nullptr, &gelu, 1);
        backward(&pre, &slope, 1);
        const double difference = std::abs(gelu - activation_value(kind, pre));
        error = std::max(error, difference / std::max(1.0, std::abs(value)));
        slope_error = std::max(slope_error, std::abs(slope - activation_slope(kind, pre)));
        // Below -4 the expected value itself, by erf in fp64, cancels.
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
        forward(&pre, &bias, &gelu, 1);
        CHECK(gelu == Approx(std::max(0.0F, value)).margin(1e-30));
        float slope = 1;
        backward(&value, &slope, 1);
        if (value <= 100) CHECK(slope == Approx(activation_slope(kind, value)).margin(1e-30));
    }
    float nan = NAN;
    forward(&nan, nullptr, &nan, 1);
    CHECK(std::isnan(nan));
}

void check_gate(device::Activation kind, const VectorKernels& kernels) {
    Floats gate = random_floats(1003, 8);
    const Floats up = random_floats(1003, 9);
    const Floats dy = random_floats(1003, 10);
    for (float& x : gate) x *= 3;
    Floats y(gate.size());
    Floats dgate(gate.size());
    Floats dup(gate.size());
    const auto n = static_cast<i64>(gate.size());
    kernels.geglu(gate.data(), up.data(), y.data(), n);
    kernels.geglu_backward(gate.data(), up.data(), dy.data(), dgate.data(), dup.data(), n);
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
        check_gelu(gelu_tanh, kernels->gelu_tanh, kernels->gelu_tanh_backward);
        check_gelu(gelu_erf, kernels->gelu_erf, kernels->gelu_erf_backward);
        check_gate(gelu_erf, *kernels);
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

TEST_CASE("the packed product and oneDNN agree", "[ops]") {
    const auto device = make_device(2);
    const device::Buffer workspace = device->allocate(i64{16} << 20, "workspace");
    device::Context context{*device, workspace.view(DType::uint8, {workspace.bytes()})};
    Matmul packed(2, ProductCode::packed);
    Matmul library(2, ProductCode::one_dnn);
    const i64 rows = 300;
    const i64 cols = 530;
    const i64 depth = 70;
    const DType type = GENERATE(DType::fp32, DType::bf16, DType::fp16);
    const Stored a(random_floats(rows * depth, 1), type);
    const Stored b(random_floats(cols * depth, 2), type);
    for (const GemmForm form : {GemmForm::nt, GemmForm::nn, GemmForm::tn}) {
        for (const bool accumulate : {false, true}) {
            Floats c = random_floats(rows * cols, 3);
            Floats d = c;
            Product p{form, rows, cols, depth, a.data(), b.data(), c.data(), accumulate, type};
            packed.run(context, p, [](const Tile&) {});
            p.c = d.data();
            library.run(context, p, [](const Tile&) {});
            double error = 0;
            for (size_t i = 0; i < c.size(); ++i) {
                error = std::max(error, static_cast<double>(std::abs(c[i] - d[i])));
            }
            CHECK(error < 1e-4);
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
