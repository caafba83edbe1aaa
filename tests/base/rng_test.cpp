// SPDX-License-Identifier: Apache-2.0
// Known answers of Philox4x32-10 from the test vectors of Random123 (kat_vectors), and the moments
// of the distributions built on it.
#include <cmath>
#include <set>

#include "base/rng.hpp"
#include "support/catch.hpp"

using namespace lm;

TEST_CASE("philox returns the known answers of Random123") {
    constexpr u64 ones = ~u64{0};
    CHECK(philox(0, 0, 0) == Philox4{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
    CHECK(philox(ones, ones, ones) == Philox4{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
    // Counter and key of digits of pi.
    CHECK(philox(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e) ==
          Philox4{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("normal numbers have the moments of a normal distribution") {
    constexpr int n = 200'000;
    const u64 key = stream_key(1234, "test");
    double sum = 0, square = 0, fourth = 0, product = 0;
    for (int i = 0; i < n; i += 2) {
        const double a = normal(key, static_cast<u64>(i));
        const double b = normal(key, static_cast<u64>(i + 1));
        sum += a + b;
        square += a * a + b * b;
        fourth += std::pow(a, 4) + std::pow(b, 4);
        product += a * b;
    }
    CHECK(std::abs(sum / n) < 0.01);
    CHECK(std::abs(square / n - 1) < 0.02);
    CHECK(std::abs(fourth / n - 3) < 0.1);
    CHECK(std::abs(2 * product / n) < 0.015);
}

TEST_CASE("uniform numbers are in [0, 1) and evenly distributed") {
    constexpr int n = 100'000, n_bins = 10;
    int bins[n_bins] = {};
    for (int i = 0; i < n; ++i) {
        const double x = uniform(7, static_cast<u64>(i));
        REQUIRE((x >= 0 && x < 1));
        ++bins[static_cast<int>(x * n_bins)];
    }
    for (int count : bins) CHECK(std::abs(count - n / n_bins) < 500);
}

TEST_CASE("streams of different seeds and names differ") {
    std::set<u64> keys;
    for (u64 seed = 0; seed < 100; ++seed) {
        for (const char* name : {"wte", "wpe", "order", ""}) keys.insert(stream_key(seed, name));
    }
    CHECK(keys.size() == 400);
    CHECK(stream_key(5, "wte") == stream_key(5, "wte"));
}
