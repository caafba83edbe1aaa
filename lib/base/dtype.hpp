// SPDX-License-Identifier: Apache-2.0
// Element types of tensors and token files, and the conversions between the 16-bit floats and fp32.
#pragma once

#include <string_view>

#include "base/types.hpp"

namespace lm {

enum class DType : u8 { uint8, uint16, int32, int64, fp32, fp64, bf16, fp16 };

i64 size_of(DType dtype);                      // bytes per element
std::string_view name_of(DType dtype);         // "fp32", "bf16", "fp16", "int32"...
DType dtype_from_name(std::string_view name);  // throws Error(usage) naming the value

// bf16 is kept as its 16 bits (g++ 12 has no bf16 type). Round to nearest even; NaN stays NaN.
u16 bf16_from_f32(float value);
float f32_from_bf16(u16 bits);
u16 f16_from_f32(float value);
float f32_from_f16(u16 bits);

}  // namespace lm
