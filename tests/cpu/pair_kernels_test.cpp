// SPDX-License-Identifier: Apache-2.0
// The loops of attention on pairs of bf16 numbers, against fp64. The sizes are multiples of
// no vector or tile. Memory next to the outputs must not change.
#include "cpu/vector/pair_kernels.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/dtype.hpp"
#include "base/rng.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::cpu;

namespace {

constexpr u16 quiet_nan = 0x7fc0;

std::vector<u16> random_bf16(i64 n, u64 key) {
    std::vector<u16> x(static_cast<size_t>(n));
    for (size_t i = 0; i < x.size(); ++i) x[i] = bf16_from_fp32(static_cast<float>(normal(key, i)));
    return x;
}

double value(u16 bits) {
    return static_cast<double>(fp32_from_bf16(bits));
}

size_t at(i64 i) {
    return static_cast<size_t>(i);
}

// A matrix whose rows are `ld` elements apart, with NaN between the rows.
std::vector<u16> spaced(i64 rows, i64 cols, i64 ld, u64 key) {
    std::vector<u16> x = random_bf16(rows * ld, key);
    for (i64 i = 0; i < rows * ld; ++i) {
        if (i % ld >= cols) x[at(i)] = quiet_nan;
    }
    return x;
}

// Returns whether the processor has the kernels. If not, prints that the test is skipped.
bool has_kernels() {
    if (!pair_kernels()) WARN("skipped: this processor does not multiply pairs of bf16 numbers");
    return pair_kernels() != nullptr;
}

// Returns the transpose of x [rows, cols].
std::vector<u32> turned(const std::vector<u32>& x, i64 rows, i64 cols) {
    std::vector<u32> y(x.size());
    for (i64 i = 0; i < rows * cols; ++i) y[at(i % cols * rows + i / cols)] = x[at(i)];
    return y;
}

// The product for processors without AMX.
auto avx512_product() {
#if defined(__x86_64__)
    return avx512_pair_kernels.product;
#else
    return pair_kernels()->product;
#endif
}

}  // namespace

TEST_CASE("products of packed bf16 pairs are correct", "[ops]") {
    if (!has_kernels()) return;
    const PairKernels& kernels = *pair_kernels();
    // On a processor with AMX, tests both implementations of the product. a is row-major, or
    // column-major as in the backward pass.
    const auto product = GENERATE(false, true) ? avx512_product() : kernels.product;
    const bool by_columns = GENERATE(false, true);
    for (const i64 m : {1, 5, 16, 23, 64}) {
        for (const i64 cols : {1, 16, 33, 80, 112}) {
            for (const i64 k : {1, 2, 13, 64, 86}) {
                const i64 n = round_up(cols, 16);
                const i64 pairs = (k + 1) / 2;
                const auto a = spaced(m, k, k + 3, 1);
                const auto b = spaced(k, cols, cols + 5, 2);
                std::vector<u32> a_pairs(at(m * pairs), ~0U);
                std::vector<u32> b_pairs(at(pairs * n), ~0U);
                kernels.copy_rows(m, k, a.data(), k + 3, a_pairs.data());
                kernels.pack_rows(k, cols, b.data(), cols + 5, b_pairs.data());
                if (by_columns) a_pairs = turned(a_pairs, m, pairs);
                for (const bool accumulate : {false, true}) {
                    std::vector<float> c(at(m * (n + 16)), 2.0F);
                    product({m, n, pairs, a_pairs.data(), by_columns ? 1 : pairs,
                             by_columns ? m : 1, b_pairs.data(), n, c.data(), n + 16, accumulate});
                    double error = 0;
                    bool beside = false;
                    for (i64 i = 0; i < m; ++i) {
                        for (i64 j = 0; j < n + 16; ++j) {
                            const auto got = static_cast<double>(c[at(i * (n + 16) + j)]);
                            double sum = accumulate ? 2.0 : 0.0;
                            for (i64 l = 0; l < k && j < cols; ++l) {
                                sum += value(a[at(i * (k + 3) + l)]) *
                                       value(b[at(l * (cols + 5) + j)]);
                            }
                            if (j >= n) beside = beside || got != 2.0;
                            if (j < n) error = std::max(error, std::abs(got - sum));
                        }
                    }
                    INFO(m << " x " << cols << " x " << k << " accumulate " << accumulate);
                    CHECK_FALSE(beside);
                    CHECK(error < 4e-6 * static_cast<double>(k + 10));
                }
            }
        }
    }
}

TEST_CASE("transposed packing writes the pairs of each row and zeros around them", "[ops]") {
    if (!has_kernels()) return;
    const PairKernels& kernels = *pair_kernels();
    for (const i64 rows : {1, 15, 16, 37, 64}) {
        for (const i64 cols : {1, 2, 31, 64, 81}) {
            const auto x = spaced(rows, cols, cols + 3, 3);
            const i64 pairs = (cols + 1) / 2;
            std::vector<u32> y(at(pairs * pair_block), ~0U);
            kernels.pack_transposed(rows, cols, x.data(), cols + 3, y.data());
            i64 wrong = 0;
            for (i64 p = 0; p < pairs; ++p) {
                for (i64 i = 0; i < pair_block; ++i) {
                    u32 expected = i < round_up(rows, 16) ? 0 : ~0U;
                    if (i < rows) {
                        expected = x[at(i * (cols + 3) + 2 * p)];
                        if (2 * p + 1 < cols) {
                            expected |= static_cast<u32>(x[at(i * (cols + 3) + 2 * p + 1)]) << 16;
                        }
                    }
                    wrong += y[at(p * pair_block + i)] != expected;
                }
            }
            INFO(rows << " x " << cols);
            CHECK(wrong == 0);
        }
    }
}

TEST_CASE("rows are stored as bf16, and their dot products are correct", "[ops]") {
    if (!has_kernels()) return;
    const PairKernels& kernels = *pair_kernels();
    for (const i64 cols : {1, 15, 16, 47, 80, 129}) {
        constexpr i64 rows = 5;
        const i64 ld = cols + 3;
        const auto a = spaced(rows, cols, ld, 4);
        const auto b = spaced(rows, cols, ld, 5);
        std::vector<float> dots(rows);
        kernels.row_dots(rows, cols, a.data(), b.data(), ld, dots.data());
        std::vector<float> x(at(rows * ld));
        for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(normal(6, i));
        const std::vector<float> factors{1.0F, 0.5F, -3.0F, 0.1F, 7.0F};
        std::vector<u16> y(at(rows * ld), quiet_nan);
        kernels.store_rows(rows, cols, x.data(), ld, factors.data(), 1, y.data(), ld);
        i64 wrong = 0;
        double error = 0;
        for (i64 i = 0; i < rows; ++i) {
            double dot = 0;
            for (i64 j = 0; j < ld; ++j) {
                const size_t element = at(i * ld + j);
                const u16 rounded = bf16_from_fp32(factors[at(i)] * x[element]);
                wrong += y[element] != (j < cols ? rounded : quiet_nan);
                if (j < cols) dot += value(a[element]) * value(b[element]);
            }
            error = std::max(error, std::abs(dot - static_cast<double>(dots[at(i)])));
        }
        CHECK(wrong == 0);
        CHECK(error < 2e-5);
    }
}

TEST_CASE("a row without visible keys keeps its maximum and sum", "[ops]") {
    if (!has_kernels()) return;
    const PairKernels& kernels = *pair_kernels();
    std::vector<float> scores(at(pair_strip * pair_block), NAN);
    ScoreStrip strip{};
    strip.rows = 3;
    strip.n = 32;
    strip.scores = scores.data();
    strip.scale = 0.5F;
    for (i64 j = 0; j < 32; ++j) {
        for (i64 i = 0; i < 3; ++i) scores[at(i * pair_block + j)] = static_cast<float>(j - 40 * i);
    }
    // Row 0 sees keys 3 to 19, row 1 none in its first block, row 2 none in a later block.
    strip.begin[0] = 3;
    strip.end[0] = 20;
    std::vector<float> max{-INFINITY, -INFINITY, 1.5F};
    std::vector<float> sum{0.0F, 0.0F, 2.5F};
    max.resize(16, -INFINITY);
    sum.resize(16, 0.0F);
    std::vector<float> rescale(16);
    std::vector<u32> weights(at(pair_strip * pair_block / 2), ~0U);
    kernels.softmax(strip, weights.data(), max.data(), sum.data(), rescale.data());
    CHECK(max[0] == 9.5F);
    CHECK(max[1] == -INFINITY);
    CHECK(max[2] == 1.5F);
    double expected = 0;
    i64 wrong = 0;
    for (i64 j = 0; j < 32; ++j) {
        const double p = j >= 3 && j < 20 ? std::exp(0.5 * static_cast<double>(j - 19)) : 0.0;
        expected += p;
        for (i64 i = 0; i < 3; ++i) {
            const u32 pair = weights[at(i * pair_block / 2 + j / 2)];
            const double got = value(static_cast<u16>(j % 2 ? pair >> 16 : pair & 0xffff));
            wrong += std::abs(got - (i == 0 ? p : 0.0)) > p / 256;
        }
    }
    CHECK(wrong == 0);
    CHECK(std::abs(static_cast<double>(sum[0]) - expected) < 1e-5);
    CHECK(sum[1] == 0.0F);
    CHECK(sum[2] == 2.5F);
    CHECK(rescale[2] == 1.0F);
}
