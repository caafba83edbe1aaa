// SPDX-License-Identifier: Apache-2.0
// Conversion of floats to integer keys of the same order. The bits of IEEE 754 floats, read as
// signed integers, are in order for positive floats and in reverse order for negative ones.
#include "cuda/nccl/max_keys.hpp"

#include "cuda/kernels/kernel_launch.cuh"
#include "cuda/kernels/vector.cuh"

namespace lm::cuda {
namespace {

constexpr int threads = 256;
constexpr i64 max_blocks = i64{132} * 8;

// Returns the bits of x as the key; for a negative float, with all bits but the sign inverted,
// which reverses their order. NaN becomes the largest key.
__device__ int key_of(float x) {
    constexpr int without_sign = 0x7fffffff;
    if (x != x) return without_sign;
    const int bits = __float_as_int(x);
    return bits >= 0 ? bits : bits ^ without_sign;
}
__device__ long long key_of(double x) {
    constexpr long long without_sign = 0x7fffffffffffffff;
    if (x != x) return without_sign;
    const long long bits = __double_as_longlong(x);
    return bits >= 0 ? bits : bits ^ without_sign;
}
// The inverse of key_of(): inverting the same bits twice restores them.
__device__ float value_of(int key) {
    return __int_as_float(key >= 0 ? key : key ^ 0x7fffffff);
}
__device__ double value_of(long long key) {
    return __longlong_as_double(key >= 0 ? key : key ^ 0x7fffffffffffffff);
}

// Returns x in the type whose bits become the key: fp32, or fp64 for fp64.
__device__ float widen(float x) {
    return x;
}
__device__ double widen(double x) {
    return x;
}
__device__ float widen(bf16 x) {
    return to_float(x);
}
__device__ float widen(fp16 x) {
    return to_float(x);
}

template <typename T>
struct KeyOf {
    using type = int;
};
template <>
struct KeyOf<double> {
    using type = long long;
};
template <typename T>
using Key = typename KeyOf<T>::type;

template <typename T>
__device__ T narrow(float x) {
    return from_float<T>(x);
}
template <typename T>
__device__ T narrow(double x) {
    return x;
}

// `x` and `keys` may be the same memory, so the pointers must not be __restrict__. Every element is
// read and written by one thread.
template <typename T>
__global__ void encode(const T* x, Key<T>* keys, i64 n) {
    const i64 stride = static_cast<i64>(gridDim.x) * threads;
    for (i64 i = static_cast<i64>(blockIdx.x) * threads + threadIdx.x; i < n; i += stride) {
        keys[i] = key_of(widen(x[i]));
    }
}

template <typename T>
__global__ void decode(const Key<T>* keys, T* x, i64 n) {
    const i64 stride = static_cast<i64>(gridDim.x) * threads;
    for (i64 i = static_cast<i64>(blockIdx.x) * threads + threadIdx.x; i < n; i += stride) {
        x[i] = narrow<T>(value_of(keys[i]));
    }
}

template <typename Body>
void with_float_type(DType dtype, const Body& body) {
    if (dtype == DType::fp64) return body(double{});
    with_type(dtype, body);
}

}  // namespace

void to_keys(cudaStream_t stream, DType dtype, const void* x, void* keys, i64 n) {
    with_float_type(dtype, [&](auto element) {
        using T = decltype(element);
        launch(stream, encode<T>, blocks_for(n, threads, max_blocks), dim3(threads), 0,
               static_cast<const T*>(x), static_cast<Key<T>*>(keys), n);
    });
}

void from_keys(cudaStream_t stream, DType dtype, const void* keys, void* x, i64 n) {
    with_float_type(dtype, [&](auto element) {
        using T = decltype(element);
        launch(stream, decode<T>, blocks_for(n, threads, max_blocks), dim3(threads), 0,
               static_cast<const Key<T>*>(keys), static_cast<T*>(x), n);
    });
}

}  // namespace lm::cuda
