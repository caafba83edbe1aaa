// SPDX-License-Identifier: Apache-2.0
#include "base/dtype.hpp"

#include <array>
#include <bit>

#include "base/error.hpp"

namespace lm {
namespace {

struct DTypeInfo {
    DType dtype;
    std::string_view name;
    i64 bytes;
};

constexpr std::array<DTypeInfo, 8> dtypes = {{
    {DType::uint8, "uint8", 1},
    {DType::int32, "int32", 4},
    {DType::int64, "int64", 8},
    {DType::fp32, "fp32", 4},
    {DType::fp64, "fp64", 8},
    {DType::bf16, "bf16", 2},
    {DType::fp16, "fp16", 2},
    {DType::uint16, "uint16", 2},
}};

const DTypeInfo& info(DType dtype) {
    for (const DTypeInfo& entry : dtypes) {
        if (entry.dtype == dtype) return entry;
    }
    bug(__FILE__, __LINE__, "expected one of {} element types, got {}", dtypes.size(),
        static_cast<int>(dtype));
}

}  // namespace

i64 size_of(DType dtype) {
    return info(dtype).bytes;
}

std::string_view name_of(DType dtype) {
    return info(dtype).name;
}

DType dtype_from_name(std::string_view name) {
    for (const DTypeInfo& entry : dtypes) {
        if (entry.name == name) return entry.dtype;
    }
    usage_error("dtype", "unknown element type '{}': use fp32, bf16 or fp16", name);
}

// bf16 is the upper half of fp32. Adding 0x7fff plus the lowest kept bit rounds to nearest even. A
// NaN is truncated and its quiet bit is set, because rounding could turn it into infinity.
u16 bf16_from_fp32(float value) {
    const u32 bits = std::bit_cast<u32>(value);
    if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<u16>((bits >> 16) | 0x40U);
    return static_cast<u16>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

float fp32_from_bf16(u16 bits) {
    return std::bit_cast<float>(static_cast<u32>(bits) << 16);
}

// Rounds to nearest even. The code does not use _Float16, which on x86 needs g++ 12 or clang 15.
u16 fp16_from_fp32(float value) {
    const u32 bits = std::bit_cast<u32>(value);
    const u32 sign = (bits >> 16) & 0x8000U;
    const u32 magnitude = bits & 0x7fffffffU;
    u32 half = 0;
    if (magnitude > 0x7f800000U) {
        half = 0x7e00U | ((magnitude >> 13) & 0x3ffU);  // a quiet NaN
    } else if (magnitude >= 0x47800000U) {
        half = 0x7c00U;  // 65536 and above: infinity
    } else if (magnitude < 0x38800000U) {
        // Below 2^-14, fp16 numbers are multiples of 2^-24. fp32 numbers in [0.5, 1) are multiples
        // of 2^-24, too. So adding 0.5 in fp32 rounds the value to an fp16 number.
        const float rounded = std::bit_cast<float>(magnitude) + 0.5F;
        half = std::bit_cast<u32>(rounded) - std::bit_cast<u32>(0.5F);
    } else {
        // When rounding carries into the exponent, the result is the next power of two or infinity,
        // which is correct.
        const u32 odd = (magnitude >> 13) & 1U;
        half = ((magnitude + 0xfffU + odd) >> 13) - ((127 - 15) << 10);
    }
    return static_cast<u16>(sign | half);
}

float fp32_from_fp16(u16 bits) {
    const u32 sign = static_cast<u32>(bits & 0x8000U) << 16;
    const u32 magnitude = bits & 0x7fffU;
    u32 wide = 0;
    if (magnitude >= 0x7c00U) {
        wide = 0x7f800000U | (magnitude << 13);  // infinity or NaN
        if (magnitude > 0x7c00U) wide |= 0x400000U;
    } else if (magnitude < 0x400U) {
        wide = std::bit_cast<u32>(static_cast<float>(magnitude) * 0x1p-24F);  // subnormal
    } else {
        wide = (magnitude << 13) + ((127U - 15U) << 23);
    }
    return std::bit_cast<float>(sign | wide);
}

}  // namespace lm
