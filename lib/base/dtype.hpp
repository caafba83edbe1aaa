// SPDX-License-Identifier: Apache-2.0
// Element types of tensors and token files, and the conversions between the 16-bit floats and fp32.
#pragma once

#include <string_view>

#include "base/types.hpp"

namespace lm {

enum class DType : u8 { uint8, uint16, int32, int64, fp32, fp64, bf16, fp16 };

// Returns the bytes of one element.
i64 size_of(DType dtype);
// Returns "fp32", "bf16", "fp16", "int32", ...
std::string_view name_of(DType dtype);
// Returns the type for which name_of() returns `name`. Throws Error(usage) when no type has this
// name.
DType dtype_from_name(std::string_view name);

// Conversions between fp32 and the bits of a 16-bit float (g++ 12 has no bf16 type). Narrowing
// rounds to nearest even; a NaN stays a NaN.
u16 bf16_from_fp32(float value);
float fp32_from_bf16(u16 bits);
u16 fp16_from_fp32(float value);
float fp32_from_fp16(u16 bits);

// The 16-bit floats as stored in memory. They hold only the bits, so that no arithmetic is done in
// 16 bits by accident.
struct Bf16 {
    u16 bits;
};
struct Fp16 {
    u16 bits;
};
static_assert(sizeof(Bf16) == 2 && sizeof(Fp16) == 2);

constexpr bool is_half(DType dtype) {
    return dtype == DType::bf16 || dtype == DType::fp16;
}
constexpr bool is_floating_point(DType dtype) {
    return dtype == DType::fp64 || dtype == DType::fp32 || is_half(dtype);
}

}  // namespace lm
