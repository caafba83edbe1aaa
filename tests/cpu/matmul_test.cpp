// SPDX-License-Identifier: Apache-2.0
// Matrix products: the kernels of every instruction set of this processor, and both implementations
// of large products, against fp64.
#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <vector>

#include "base/rng.hpp"
#include "cost/cpu_scratch.hpp"
#include "cpu/cpu_device.hpp"
#include "cpu/matmul.hpp"
#include "cpu/vector/vector_kernels.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::cpu;

namespace {

using Floats = std::vector<float>;

Floats random_operand(i64 n, u64 key) {
    Floats x(static_cast<size_t>(n));
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(normal(key, i));
    return x;
}

// Numbers as stored in `type`, and their values after rounding to that type.
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

// A product c += a b. The rows of c [m, n] are n + 3 elements apart. a(i, k) is at
// a[i * a_row + k * a_col], and b(k, j) is at b[k * b_row + j * b_col].
struct Operands {
    i64 m, n, k;
    i64 a_row, a_col, b_row, b_col;
};

// Returns element (i, j) of the product.
double product_at(const Operands& p, const Floats& a, const Floats& b, i64 i, i64 j) {
    double sum = 0.0;
    for (i64 k = 0; k < p.k; ++k) {
        sum += static_cast<double>(a[static_cast<size_t>(i * p.a_row + k * p.a_col)]) *
               b[static_cast<size_t>(k * p.b_row + j * p.b_col)];
    }
    return sum;
}

// Memory for a packed operand whose last word is the last of an array, and words around it that
// must stay as they are.
class Packed {
  public:
    Packed(i64 length, i64 strip, i64 words)
        : size_(static_cast<size_t>(round_up(length, strip) * words)),
          memory_(size_ + 2 * around, marker) {}
    float* data() { return memory_.data() + around; }
    bool changed_around() const {
        const auto same = [](float x) { return x == marker; };
        return !std::all_of(memory_.begin(), memory_.begin() + around, same) ||
               !std::all_of(memory_.end() - around, memory_.end(), same);
    }

  private:
    static constexpr i64 around = 32;
    static constexpr float marker = -12345;
    size_t size_;
    Floats memory_;
};

void check_product(const PackedKernels& kernels, const char* name, const Operands& p,
                   bool accumulate, DType type) {
    const auto [m, n, k] = std::array{p.m, p.n, p.k};
    const Stored a(random_operand(m * k, 1), type);
    const Stored b(random_operand(k * n, 2), type);
    const Floats before = random_operand(m * (n + 3), 3);
    Floats c = before;
    const i64 words = kernels.words(k, type);
    Packed packed_a(m, kernels.rows, words);
    Packed packed_b(n, kernels.cols, words);
    kernels.pack_a({a.data(), p.a_col, p.a_row, m, k, type}, packed_a.data());
    kernels.pack_b({b.data(), p.b_row, p.b_col, n, k, type}, packed_b.data());
    kernels.product(
        {m, n, words, packed_a.data(), packed_b.data(), c.data(), n + 3, accumulate, type});
    CHECK_FALSE(packed_a.changed_around());
    CHECK_FALSE(packed_b.changed_around());
    double error = 0;
    bool beside = false;
    for (i64 i = 0; i < m; ++i) {
        for (i64 j = 0; j < n + 3; ++j) {
            const auto at = static_cast<size_t>(i * (n + 3) + j);
            if (j >= n) {
                beside = beside || c[at] != before[at];
            } else {
                const double start = accumulate ? before[at] : 0.0;
                error = std::max(error,
                                 std::abs(c[at] - start - product_at(p, a.values, b.values, i, j)));
            }
        }
    }
    INFO(name << " " << m << " x " << n << " x " << k << " strides " << p.a_row << ", " << p.b_row
              << " " << name_of(type));
    CHECK_FALSE(beside);
    CHECK(error < 2e-6 * static_cast<double>(k + 10));
}

// Checks products of several sizes in the forms NT, NN and TN.
void check_products(const PackedKernels& kernels, const char* name, DType type) {
    for (const bool accumulate : {false, true}) {
        for (const auto& [m, n, k] : {std::array<i64, 3>{1, 1, 1},
                                      {7, 17, 9},
                                      {101, 67, 261},
                                      {96, 64, 256},
                                      {66, 130, 96}}) {
            check_product(kernels, name, {m, n, k, k, 1, 1, k}, accumulate, type);
            check_product(kernels, name, {m, n, k, k, 1, n, 1}, accumulate, type);
            check_product(kernels, name, {m, n, k, 1, m, n, 1}, accumulate, type);
        }
    }
}

}  // namespace

TEST_CASE("packed products of odd sizes are correct", "[ops]") {
    for (const VectorKernels* const kernels : all_vector_kernels()) {
        for (const DType type : storage_types) check_products(kernels->packed, kernels->name, type);
    }
    if (amx_packed_kernels()) {
        check_products(*amx_packed_kernels(), "AMX", DType::bf16);
    } else {
        WARN("skipped for AMX, which this processor does not have");
    }
}

TEST_CASE(
    "fp32 products of packed operands have the same bits with every instruction set that has FMA",
    "[ops]") {
    const i64 m = 101;
    const i64 n = 67;
    const i64 k = 261;
    const Floats a = random_operand(m * k, 1);
    const Floats b = random_operand(k * n, 2);
    Floats first;
    int compared = 0;
    for (const VectorKernels* const kernels : all_vector_kernels()) {
        if (!std::string_view(kernels->name).starts_with("AVX")) continue;
        const PackedKernels& packed = kernels->packed;
        Packed packed_a(m, packed.rows, k);
        Packed packed_b(n, packed.cols, k);
        packed.pack_a({a.data(), 1, k, m, k, DType::fp32}, packed_a.data());
        packed.pack_b({b.data(), n, 1, n, k, DType::fp32}, packed_b.data());
        Floats c(static_cast<size_t>(m * n), 1.0F);
        packed.product({m, n, k, packed_a.data(), packed_b.data(), c.data(), n, true, DType::fp32});
        if (compared++ == 0) first = c;
        CHECK(c == first);
    }
    if (compared < 2) WARN("nothing to compare: this processor has less than two such sets");
}

TEST_CASE("small products and transposes are correct", "[ops]") {
    for (const VectorKernels* const kernels : all_vector_kernels()) {
        for (const i64 n : {1, 5, 16, 37, 64}) {
            const i64 m = 13;
            const i64 k = 11;
            const Floats a = random_operand(m * k, 1);
            const Floats b = random_operand(k * n, 2);
            Floats c(static_cast<size_t>(m * n), NAN);
            kernels->small_product(m, n, k, a.data(), k, 1, b.data(), n, c.data(), n, false);
            const Operands p{m, n, k, k, 1, n, 1};
            double error = 0;
            for (i64 i = 0; i < m * n; ++i) {
                error = std::max(
                    error, std::abs(c[static_cast<size_t>(i)] - product_at(p, a, b, i / n, i % n)));
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

TEST_CASE("the packed product and oneDNN agree", "[ops]") {
    const auto device = make_device(2);
    const device::Buffer workspace = device->allocate(i64{32} << 20, "workspace");
    device::Context context{*device, workspace.view(DType::uint8, {workspace.bytes()})};
    Matmul packed(2, ProductCode::packed);
    Matmul library(2, ProductCode::library);
    const i64 rows = 300;
    const i64 cols = 530;
    const i64 depth = 70;
    const DType type = GENERATE(DType::fp32, DType::bf16, DType::fp16);
    const Stored a(random_operand(rows * depth, 1), type);
    const Stored b(random_operand(cols * depth, 2), type);
    for (const GemmForm form : {GemmForm::nt, GemmForm::nn, GemmForm::tn}) {
        for (const bool accumulate : {false, true}) {
            Floats c = random_operand(rows * cols, 3);
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

namespace {

// Returns a product of several chunks in each dimension, [m, n], by `n_threads` threads. Without
// `in_place` its tiles are in scratch memory.
Floats large_product(Product p, int n_threads, bool in_place) {
    const auto device = make_device(n_threads);
    const i64 bytes = cost::product_floats(n_threads) * i64{sizeof(float)};
    const device::Buffer workspace = device->allocate(bytes, "workspace");
    device::Context context{*device, workspace.view(DType::uint8, {workspace.bytes()})};
    Floats result(static_cast<size_t>(p.m * p.n), p.accumulate ? 1.0F : NAN);
    if (in_place) p.c = result.data();
    Matmul(n_threads, ProductCode::packed).run(context, p, [&](const Tile& tile) {
        for (i64 i = tile.row_begin; i < tile.row_end && !in_place; ++i) {
            std::copy_n(tile.row(i), tile.width(), result.data() + i * p.n + tile.col_begin);
        }
    });
    return result;
}

}  // namespace

TEST_CASE("products of several chunks are correct and independent of the thread count", "[ops]") {
    const i64 m = 1301;
    const i64 n = 1099;
    const i64 k = 1751;
    const DType type = GENERATE(DType::fp32, DType::bf16);
    const GemmForm form = GENERATE(GemmForm::nt, GemmForm::nn, GemmForm::tn);
    const Stored a(random_operand(m * k, 1), type);
    const Stored b(random_operand(n * k, 2), type);
    const Product product{
        .form = form, .m = m, .n = n, .k = k, .a = a.data(), .b = b.data(), .type = type};
    const Floats c = large_product(product, 1, false);
    CHECK(large_product(product, 3, false) == c);
    CHECK(large_product(product, 2, true) == c);
    Product more = product;
    more.accumulate = true;
    const Floats sum = large_product(more, 2, true);
    const Operands shape{m,
                         n,
                         k,
                         form == GemmForm::tn ? 1 : k,
                         form == GemmForm::tn ? m : 1,
                         form == GemmForm::nt ? 1 : n,
                         form == GemmForm::nt ? k : 1};
    double error = 0;
    for (i64 at = 0; at < m * n; at += 331) {
        const double expected = product_at(shape, a.values, b.values, at / n, at % n);
        const auto i = static_cast<size_t>(at);
        error = std::max({error, std::abs(c[i] - expected), std::abs(sum[i] - 1 - expected)});
    }
    CHECK(error < 1e-3);
}
