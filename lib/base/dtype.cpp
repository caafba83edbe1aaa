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
// NaN is cut instead, with the quiet bit set: rounding could turn it into infinity.
u16 bf16_from_fp32(float value) {
    const u32 bits = std::bit_cast<u32>(value);
    if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<u16>((bits >> 16) | 0x40U);
    return static_cast<u16>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

float fp32_from_bf16(u16 bits) {
    return std::bit_cast<float>(static_cast<u32>(bits) << 16);
}

u16 fp16_from_fp32(float value) {
    return std::bit_cast<u16>(static_cast<_Float16>(value));
}

float fp32_from_fp16(u16 bits) {
    return static_cast<float>(std::bit_cast<_Float16>(bits));
}

}  // namespace lm
