// SPDX-License-Identifier: Apache-2.0
#include "model/positions.hpp"

#include <catch2/catch.hpp>
#include <cmath>

using namespace lm;

// The values of BLOOM's training code.
TEST_CASE("ALiBi slopes for any number of heads") {
    const std::vector<float> eight = model::alibi_slopes(8);
    for (size_t i = 0; i < 8; ++i) CHECK(eight[i] == std::exp2(-static_cast<float>(i + 1)));
    const std::vector<float> twelve = model::alibi_slopes(12);
    REQUIRE(twelve.size() == 12);
    for (size_t i = 0; i < 8; ++i) CHECK(twelve[i] == eight[i]);
    const double rest[] = {.70710678, .35355339, .17677670, .08838835};
    for (size_t i = 0; i < 4; ++i) CHECK(twelve[8 + i] == Approx(rest[i]).epsilon(1e-7));
    const std::vector<float> bloom = model::alibi_slopes(112);
    REQUIRE(bloom.size() == 112);
    CHECK(bloom[0] == Approx(0.9170040432).epsilon(1e-7));
    CHECK(bloom[1] == Approx(0.8408964153).epsilon(1e-7));
    CHECK(bloom[63] == Approx(0.00390625).epsilon(1e-7));
    CHECK(bloom[64] == Approx(0.9576032807).epsilon(1e-7));
    CHECK(bloom[111] == Approx(0.0163167779).epsilon(1e-7));
    CHECK(model::alibi_slopes(1) == std::vector<float>{1.0F / 256});
}

TEST_CASE("rotary angles: each pair turns by its own frequency") {
    const std::vector<float> angles = model::rotary_angles(1000, 8, 10000.0);
    REQUIRE(angles.size() == 8000);
    for (size_t i = 0; i < 4; ++i) {
        CHECK(angles[i] == 1.0F);
        CHECK(angles[4 + i] == 0.0F);
    }
    const double frequencies[] = {1.0, 0.1, 0.01, 0.001};
    for (const i64 position : {1, 7, 999}) {
        for (size_t i = 0; i < 4; ++i) {
            const double angle = static_cast<double>(position) * frequencies[i];
            const auto row = static_cast<size_t>(position) * 8;
            CHECK(angles[row + i] == Approx(std::cos(angle)).margin(1e-7));
            CHECK(angles[row + 4 + i] == Approx(std::sin(angle)).margin(1e-7));
        }
    }
}
