// SPDX-License-Identifier: Apache-2.0
// The emulator's cuda_bf16.h: storage and conversions; kernels compute in fp32.
#pragma once

#include "base/dtype.hpp"
#include "cuda_runtime.h"

struct __nv_bfloat16_raw {
    unsigned short x;
};
class __nv_bfloat16 {
  public:
    __nv_bfloat16() = default;
    __nv_bfloat16(__nv_bfloat16_raw raw) : bits_(raw.x) {}
    explicit __nv_bfloat16(float value) : bits_(lm::bf16_from_fp32(value)) {}
    operator __nv_bfloat16_raw() const { return {bits_}; }
    explicit operator float() const { return lm::fp32_from_bf16(bits_); }

  private:
    unsigned short bits_;
};
struct __nv_bfloat162 {
    __nv_bfloat16 x, y;
} __attribute__((aligned(4)));

inline float __bfloat162float(__nv_bfloat16 x) {
    return static_cast<float>(x);
}
inline __nv_bfloat16 __float2bfloat16_rn(float x) {
    return __nv_bfloat16(x);
}
inline __nv_bfloat16 __float2bfloat16(float x) {
    return __nv_bfloat16(x);
}
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
    return {__nv_bfloat16(x), __nv_bfloat16(y)};
}
inline float2 __bfloat1622float2(__nv_bfloat162 x) {
    return {static_cast<float>(x.x), static_cast<float>(x.y)};
}
