// SPDX-License-Identifier: Apache-2.0
// The emulator's cuda_fp16.h: storage and conversions; kernels compute in fp32.
#pragma once

#include "base/dtype.hpp"
#include "cuda_runtime.h"

struct __half_raw {
    unsigned short x;
};
class __half {
  public:
    __half() = default;
    __half(__half_raw raw) : bits_(raw.x) {}
    explicit __half(float value) : bits_(lm::fp16_from_fp32(value)) {}
    operator __half_raw() const { return {bits_}; }
    explicit operator float() const { return lm::fp32_from_fp16(bits_); }

  private:
    unsigned short bits_;
};
struct __half2 {
    __half x, y;
} __attribute__((aligned(4)));

inline float __half2float(__half x) {
    return static_cast<float>(x);
}
inline __half __float2half_rn(float x) {
    return __half(x);
}
inline __half __float2half(float x) {
    return __half(x);
}
inline __half2 __floats2half2_rn(float x, float y) {
    return {__half(x), __half(y)};
}
inline float2 __half22float2(__half2 x) {
    return {static_cast<float>(x.x), static_cast<float>(x.y)};
}
