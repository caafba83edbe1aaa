// SPDX-License-Identifier: Apache-2.0
// Short names of the integer types, and their conversions. Sizes and counts are i64 everywhere,
// never unsigned.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lm {

using i8 = std::int8_t;
using i16 = std::int16_t;
using i32 = std::int32_t;
using i64 = std::int64_t;
using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

constexpr i64 ceil_div(i64 a, i64 b) {
    return (a + b - 1) / b;
}
constexpr i64 round_up(i64 a, i64 multiple) {
    return ceil_div(a, multiple) * multiple;
}

// Returns the double nearest to n. It is exact up to 2^53.
constexpr double as_double(i64 n) {
    return static_cast<double>(n);
}

}  // namespace lm
