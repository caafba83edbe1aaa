// SPDX-License-Identifier: Apache-2.0
// The 16-bit floats as they are stored: their bits and nothing else, so that no arithmetic happens
// in them by accident. Conversions: base/dtype.hpp.
#pragma once

#include "base/dtype.hpp"

namespace lm {

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

// The distance from 1 to the next larger number; 0 for types that hold no fractions.
constexpr double epsilon_of(DType dtype) {
    switch (dtype) {
        case DType::fp64:
            return 0x1p-52;
        case DType::fp32:
            return 0x1p-23;
        case DType::fp16:
            return 0x1p-10;
        case DType::bf16:
            return 0x1p-7;
        default:
            return 0;
    }
}

}  // namespace lm
