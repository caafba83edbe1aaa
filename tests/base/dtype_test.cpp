// SPDX-License-Identifier: Apache-2.0
// Rounding of the 16-bit floats: every value to fp32 and back, ties to even, and the special
// values.
#include <bit>
#include <cmath>
#include <limits>

#include "base/dtype.hpp"
#include "base/rng.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;

namespace {

float f32_of(u32 bits) {
    return std::bit_cast<float>(bits);
}

// Returns the nearer of the two 16-bit neighbours `below` and below + 1 of `value`, ties to even.
// Follows the definition of rounding.
template <typename Widen>
u16 nearest(float value, u16 below, Widen widen) {
    const auto above = static_cast<u16>(below + 1);
    const double to_below = static_cast<double>(value) - widen(below);
    const double to_above = static_cast<double>(widen(above)) - value;
    if (to_below != to_above) return to_below < to_above ? below : above;
    return below % 2 == 0 ? below : above;
}

}  // namespace

TEST_CASE("every 16-bit float is the same after conversion to fp32 and back") {
    for (u32 i = 0; i < 65536; ++i) {
        const auto bits = static_cast<u16>(i);
        if (std::isnan(fp32_from_bf16(bits))) {
            REQUIRE(std::isnan(fp32_from_bf16(bf16_from_fp32(fp32_from_bf16(bits)))));
        } else {
            REQUIRE(bf16_from_fp32(fp32_from_bf16(bits)) == bits);
        }
        if (std::isnan(fp32_from_fp16(bits))) {
            REQUIRE(std::isnan(fp32_from_fp16(fp16_from_fp32(fp32_from_fp16(bits)))));
        } else {
            REQUIRE(fp16_from_fp32(fp32_from_fp16(bits)) == bits);
        }
    }
}

TEST_CASE("bf16 rounds to nearest even") {
    CHECK(bf16_from_fp32(1.0F) == 0x3f80);
    CHECK(bf16_from_fp32(f32_of(0x3f808000)) == 0x3f80);  // a tie, down to even
    CHECK(bf16_from_fp32(f32_of(0x3f818000)) == 0x3f82);  // a tie, up to even
    CHECK(bf16_from_fp32(f32_of(0x3f808001)) == 0x3f81);
    CHECK(bf16_from_fp32(f32_of(0x3f807fff)) == 0x3f80);
    CHECK(bf16_from_fp32(-0.0F) == 0x8000);
    CHECK(bf16_from_fp32(std::numeric_limits<float>::infinity()) == 0x7f80);
    CHECK(bf16_from_fp32(std::numeric_limits<float>::max()) == 0x7f80);
    CHECK(bf16_from_fp32(f32_of(0x00000001)) == 0);
    CHECK(std::isnan(fp32_from_bf16(bf16_from_fp32(f32_of(0x7f800001)))));
    CHECK(std::isnan(fp32_from_bf16(bf16_from_fp32(f32_of(0xffffffff)))));
    for (u64 i = 0; i < 20000; ++i) {
        const float value = f32_of(philox(3, i, 0)[0] & 0x7f7fffff);
        const auto below = static_cast<u16>(std::bit_cast<u32>(value) >> 16);
        if (below >= 0x7f7f) continue;
        REQUIRE(bf16_from_fp32(value) == nearest(value, below, fp32_from_bf16));
    }
}

TEST_CASE("fp16 rounds to nearest even, also subnormal numbers") {
    CHECK(fp16_from_fp32(1.0F) == 0x3c00);
    CHECK(fp16_from_fp32(65504.0F) == 0x7bff);
    CHECK(fp16_from_fp32(65519.0F) == 0x7bff);
    CHECK(fp16_from_fp32(65520.0F) == 0x7c00);
    CHECK(fp16_from_fp32(0x1.0p-24F) == 1);
    CHECK(fp16_from_fp32(0x1.0p-25F) == 0);  // a tie, to even
    CHECK(fp16_from_fp32(0x1.8p-24F) == 2);  // a tie, to even
    CHECK(fp16_from_fp32(-0.0F) == 0x8000);
    CHECK(std::isnan(fp32_from_fp16(fp16_from_fp32(std::nanf("")))));
    for (u16 below = 0; below < 0x7bff; ++below) {
        const float low = fp32_from_fp16(below);
        const float high = fp32_from_fp16(static_cast<u16>(below + 1));
        for (float part : {0.25F, 0.5F, 0.75F}) {
            const float value = low + (high - low) * part;
            REQUIRE(fp16_from_fp32(value) == nearest(value, below, fp32_from_fp16));
        }
    }
}

TEST_CASE("dtypes have names and sizes") {
    for (DType dtype : {DType::uint8, DType::int32, DType::int64, DType::fp32, DType::fp64,
                        DType::bf16, DType::fp16, DType::uint16}) {
        CHECK(dtype_from_name(name_of(dtype)) == dtype);
    }
    CHECK(size_of(DType::bf16) == 2);
    CHECK(size_of(DType::fp64) == 8);
    const auto error = test::caught([] { dtype_from_name("float33"); });
    CHECK(error.code == Exit::usage);
    CHECK(error.says("float33"));
}
