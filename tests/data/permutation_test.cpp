// SPDX-License-Identifier: Apache-2.0
#include "data/sampling/permutation.hpp"

#include <map>
#include <vector>

#include "base/rng.hpp"
#include "support/catch.hpp"

using lm::i64;
using lm::u64;
using lm::data::Permutation;

namespace {

bool is_bijection(i64 n, u64 key) {
    const Permutation permute(n, key);
    std::vector<bool> hit(static_cast<size_t>(n));
    for (i64 k = 0; k < n; ++k) {
        const i64 to = permute(k);
        if (to < 0 || to >= n || hit[static_cast<size_t>(to)]) return false;
        hit[static_cast<size_t>(to)] = true;
    }
    return true;
}

double chi_square(const std::vector<i64>& counts, double expected) {
    double sum = 0;
    for (const i64 count : counts) {
        const double d = static_cast<double>(count) - expected;
        sum += d * d / expected;
    }
    return sum;
}

}  // namespace

TEST_CASE("sizes up to 300 give a permutation under several keys") {
    for (i64 n = 1; n <= 300; ++n) {
        for (u64 key = 0; key < 8; ++key) {
            INFO("n " << n << " key " << key);
            REQUIRE(is_bijection(n, lm::mix(key, 99)));
        }
    }
}

TEST_CASE("larger sizes give a permutation") {
    for (const i64 n : {1000, 4095, 4096, 4097, 65535, 65536, 65537, 99991, 1000003}) {
        INFO("n " << n);
        REQUIRE(is_bijection(n, 7));
    }
}

TEST_CASE("very large sizes stay in range") {
    const i64 n = (i64{1} << 61) + 12345;
    const Permutation permute(n, 3);
    for (i64 k = 0; k < 1000; ++k) {
        const i64 to = permute(n - 1 - k);
        REQUIRE(to >= 0);
        REQUIRE(to < n);
    }
}

// Chi-squared test over 24000 keys: all 24 orders of four values are equally frequent. 23 degrees
// of freedom, 99.9 % quantile 49.7.
TEST_CASE("small permutations are uniform over the keys") {
    std::map<std::vector<i64>, i64> seen;
    for (u64 key = 0; key < 24000; ++key) {
        const Permutation permute(4, lm::mix(key, 1));
        ++seen[{permute(0), permute(1), permute(2), permute(3)}];
    }
    REQUIRE(seen.size() == 24);
    std::vector<i64> counts;
    for (const auto& entry : seen) counts.push_back(entry.second);
    CHECK(chi_square(counts, 1000.0) < 49.7);
}

// Chi-squared tests over the keys: the image of index 5 of 64, and the difference between the
// images of two neighbours, are uniform. 63 degrees of freedom, 99.9 % quantile 103.4.
TEST_CASE("positions and steps are uniform over the keys") {
    constexpr i64 n = 64;
    constexpr i64 keys = 64000;
    std::vector<i64> place(n), step(n);
    for (u64 key = 0; key < keys; ++key) {
        const Permutation permute(n, lm::mix(key, 2));
        ++place[static_cast<size_t>(permute(5))];
        ++step[static_cast<size_t>((permute(6) - permute(5) + n) % n)];
    }
    CHECK(step[0] == 0);
    step.erase(step.begin());
    CHECK(chi_square(place, keys / double(n)) < 103.4);
    CHECK(chi_square(step, keys / double(n - 1)) < 103.4);
}

// Chi-squared test with one key and a large n: the images of neighbours are spread evenly over 16 x
// 16 cells. 255 degrees of freedom, 99.9 % quantile 330.5.
TEST_CASE("a large permutation separates neighbors") {
    constexpr i64 n = 256000;
    const Permutation permute(n, 2026);
    std::vector<i64> cells(256);
    for (i64 k = 0; k + 1 < n; k += 2) {
        const i64 a = permute(k) * 16 / n;
        const i64 b = permute(k + 1) * 16 / n;
        ++cells[static_cast<size_t>(a * 16 + b)];
    }
    CHECK(chi_square(cells, double(n) / 2 / 256) < 330.5);
}

// Checkpoints rely on the order: these values never change.
TEST_CASE("the permutation of a key never changes") {
    const Permutation permute(10, 1234);
    std::vector<i64> order;
    for (i64 k = 0; k < 10; ++k) order.push_back(permute(k));
    CHECK(order == std::vector<i64>{6, 1, 2, 4, 9, 3, 0, 5, 8, 7});
    CHECK(Permutation(123456789012, 42)(987654321) == 66610674817);
}
