// SPDX-License-Identifier: Apache-2.0
#include "model/positions.hpp"

#include <cmath>

#include "cpu/cpu_device.hpp"
#include "support/catch.hpp"

using namespace lm;

// The values of apply_scaling in Meta's llama_models: factor 8, low 1, high 4, context 8192.
TEST_CASE("rotary angles of Llama 3.1") {
    constexpr i64 dim = 128;
    const std::vector<float> plain = model::rotary_angles(2, dim, {500000.0}, 2);
    const std::vector<float> scaled =
        model::rotary_angles(2, dim, {500000.0, spec::usual_scaling(spec::RotaryRule::llama3)}, 2);
    const auto angle = [](const std::vector<float>& angles, size_t i) {
        return std::atan2(double{angles[dim + 64 + i]}, double{angles[dim + i]});
    };
    size_t kept = 0;
    size_t divided = 0;
    for (size_t i = 0; i < 64; ++i) {
        const double ratio = angle(scaled, i) / angle(plain, i);
        kept += std::abs(ratio - 1) < 1e-6 ? 1 : 0;
        divided += std::abs(ratio - 1.0 / 8) < 1e-6 ? 1 : 0;
    }
    CHECK(kept == 29);     // wavelengths below 2048
    CHECK(divided == 29);  // wavelengths above 8192
    // Dimension 31: wavelength 2 pi 500000^(31/64) = 3618.9 tokens.
    const double turns = 8192 / (2 * 3.14159265358979 * std::pow(500000.0, 31.0 / 64));
    const double smooth = (turns - 1) / 3;
    CHECK(angle(scaled, 31) / angle(plain, 31) == Approx((1 - smooth) / 8 + smooth).epsilon(1e-5));
}

TEST_CASE("a window limits the first keys of each sample") {
    std::vector<i32> starts = {0, 0, 0, 0, 0, 0, 0, 2, 2, 2};
    model::limit_to_window(starts, 5, 3);
    CHECK(starts == std::vector<i32>{0, 0, 0, 1, 2, 0, 0, 2, 2, 2});
    model::limit_to_window(starts, 5, 1);
    CHECK(starts == std::vector<i32>{0, 1, 2, 3, 4, 0, 1, 2, 3, 4});
}

TEST_CASE("the first keys of a batch are copied for each window") {
    const auto device = cpu::make_device(1);
    const device::Buffer buffer = device->allocate(4 * 2 * 5, "first keys");
    const device::View view = buffer.view(DType::int32, {2, 5});
    const std::vector<i32> starts = {0, 0, 0, 3, 3};
    const std::vector<i64> windows = {2, 0};
    model::copy_starts(*device, view, starts, windows);
    const auto all = view.span<i32>();
    CHECK(std::vector<i32>(all.begin(), all.end()) ==
          std::vector<i32>{0, 0, 1, 3, 3, 0, 0, 0, 3, 3});
}

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
    const std::vector<float> angles = model::rotary_angles(1000, 8, {}, 1000);
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
