// SPDX-License-Identifier: Apache-2.0
// Loads and stores of the three compute types, with fp32 arithmetic in between. Accesses are 16
// bytes wide where addresses allow it. This is the widest access of a thread, and full bandwidth
// needs it.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "cuda/kernels/kernel_launch.cuh"
#include "device/view.hpp"

namespace lm::cuda {

using bf16 = __nv_bfloat16;
using fp16 = __half;

// Calls body(float{}), body(bf16{}) or body(fp16{}), so that a kernel gets the compute type as a
// template argument.
template <typename Body>
void with_type(DType dtype, Body&& body) {
    if (dtype == DType::fp32) return body(float{});
    if (dtype == DType::bf16) return body(bf16{});
    if (dtype == DType::fp16) return body(fp16{});
    no_such_type(dtype);
}

// Returns a view's pointer, or nullptr for no view. view: [...] of any dtype; T must be the type
// that with_type() selected.
template <typename T>
T* pointer(const device::View& view) {
    return static_cast<T*>(view.data);
}

__device__ inline float to_float(float x) {
    return x;
}
__device__ inline float to_float(bf16 x) {
    return __bfloat162float(x);
}
__device__ inline float to_float(fp16 x) {
    return __half2float(x);
}

// Converts x to T; rounds to nearest even.
template <typename T>
__device__ T from_float(float x);
template <>
__device__ inline float from_float<float>(float x) {
    return x;
}
template <>
__device__ inline bf16 from_float<bf16>(float x) {
    return __float2bfloat16_rn(x);
}
template <>
__device__ inline fp16 from_float<fp16>(float x) {
    return __float2half_rn(x);
}

// Elements of T in one 16-byte access.
template <typename T>
constexpr int per_access = 16 / static_cast<int>(sizeof(T));

// `n` elements in one aligned access of at most 16 bytes.
template <typename T, int n = per_access<T>>
struct alignas(n * sizeof(T)) Pack {
    static_assert(n * sizeof(T) <= 16);
    T values[n];
    __device__ void get(float (&x)[n]) const {
#pragma unroll
        for (int i = 0; i < n; ++i) x[i] = to_float(values[i]);
    }
    __device__ void set(const float (&x)[n]) {
#pragma unroll
        for (int i = 0; i < n; ++i) values[i] = from_float<T>(x[i]);
    }
};

// Returns the two 16-bit elements in a word as fp32; the first is in the low half.
__device__ inline float2 unpack(bf16, u32 word) {
    return {__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000U)};
}
__device__ inline float2 unpack(fp16, u32 word) {
    const __half_raw low{static_cast<unsigned short>(word)};
    const __half_raw high{static_cast<unsigned short>(word >> 16)};
    return {to_float(fp16(low)), to_float(fp16(high))};
}

// 16-bit elements stay packed, two in a register. For single elements the compiler would use one
// register each, and add instructions that pack and unpack them around every access.
template <typename T, int n>
requires(sizeof(T) == 2 && n % 2 == 0) struct alignas(n * sizeof(T)) Pack<T, n> {
    static_assert(n * sizeof(T) <= 16);
    u32 words[n / 2];
    __device__ void get(float (&x)[n]) const {
#pragma unroll
        for (int i = 0; i < n; i += 2) {
            const float2 pair = unpack(T{}, words[i / 2]);
            x[i] = pair.x;
            x[i + 1] = pair.y;
        }
    }
    __device__ void set(const float (&x)[n]) {
#pragma unroll
        for (int i = 0; i < n; i += 2) {
            const T pair[2] = {from_float<T>(x[i]), from_float<T>(x[i + 1])};
            memcpy(&words[i / 2], pair, sizeof(pair));
        }
    }
};

template <int n, typename T>
__device__ Pack<T, n> load_pack(const T* from) {
    return *reinterpret_cast<const Pack<T, n>*>(from);
}
template <typename T>
__device__ Pack<T> load_pack(const T* from) {
    return *reinterpret_cast<const Pack<T>*>(from);
}
template <typename T, int n>
__device__ void store_pack(T* to, const Pack<T, n>& pack) {
    *reinterpret_cast<Pack<T, n>*>(to) = pack;
}

// load and store copy `n` elements between memory and registers in as few accesses as possible. The
// memory address must be aligned to the size of n elements, or to 16 bytes if that is less.
template <int n, typename T>
__device__ void load(const T* from, float (&to)[n]) {
    constexpr int width = n < per_access<T> ? n : per_access<T>;
#pragma unroll
    for (int i = 0; i < n; i += width) {
        float part[width];
        load_pack<width>(from + i).get(part);
#pragma unroll
        for (int k = 0; k < width; ++k) to[i + k] = part[k];
    }
}
template <int n, typename T>
__device__ void store(T* to, const float (&from)[n]) {
    constexpr int width = n < per_access<T> ? n : per_access<T>;
#pragma unroll
    for (int i = 0; i < n; i += width) {
        float part[width];
#pragma unroll
        for (int k = 0; k < width; ++k) part[k] = from[i + k];
        Pack<T, width> pack;
        pack.set(part);
        store_pack(to + i, pack);
    }
}

// Calls turn.operator()<count>(begin) for this thread's ranges of [0, n). `stride` threads together
// cover [0, n); `first` is the number of this thread. If `vectors` is true, which requires aligned
// addresses, count is `width`, and 1 for the last n % width elements. Otherwise count is always 1.
template <int width, typename Turn>
__device__ void for_turns(i64 first, i64 stride, i64 n, bool vectors, const Turn& turn) {
    const i64 n_vectors = vectors ? n / width : 0;
    for (i64 i = first; i < n_vectors; i += stride) turn.template operator()<width>(i * width);
    for (i64 i = n_vectors * width + first; i < n; i += stride) turn.template operator()<1>(i);
}
// Calls turn as for_turns() does; the threads are all threads of a one-dimensional grid.
template <int width, typename Turn>
__device__ void for_grid_turns(i64 n, bool vectors, const Turn& turn) {
    const i64 first = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x;
    for_turns<width>(first, static_cast<i64>(gridDim.x) * blockDim.x, n, vectors, turn);
}

// Returns true when `data` is aligned for accesses of `n` elements of T. Host code calls it before
// a launch.
template <typename T>
bool aligned(const T* data, int n = per_access<T>) {
    const size_t bytes = static_cast<size_t>(n) * sizeof(T);
    return reinterpret_cast<uintptr_t>(data) % (bytes < 16 ? bytes : 16) == 0;
}

}  // namespace lm::cuda
