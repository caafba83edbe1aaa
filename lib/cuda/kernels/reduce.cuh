// SPDX-License-Identifier: Apache-2.0
// Reductions by fixed trees: the result depends on the values and the block's size alone.
#pragma once

#include <cuda_runtime.h>

#include "cuda/kernels/mma.cuh"

namespace lm::cuda {

constexpr int warp_size = 32;
constexpr unsigned all_lanes = 0xffffffffU;

struct Add {
    template <typename T>
    __device__ T operator()(T a, T b) const {
        return a + b;
    }
};
// A NaN wins, so that it is not lost on the way.
struct Max {
    __device__ float operator()(float a, float b) const { return maximum(a, b); }
};

// All lanes get the result. The whole warp calls it.
template <typename Op, typename T>
__device__ T warp_reduce(T value, Op op = {}) {
    for (int distance = warp_size / 2; distance > 0; distance /= 2) {
        value = op(value, __shfl_xor_sync(all_lanes, value, distance));
    }
    return value;
}

// All threads get the result. The whole block calls it, of `threads` in x, a multiple of 32. The
// barrier at the start lets one call follow another.
template <int threads, typename Op, typename T>
__device__ T block_reduce(T value, Op op = {}) {
    static_assert(threads % warp_size == 0 && threads <= 1024);
    constexpr int n_warps = threads / warp_size;
    __shared__ T partial[n_warps];
    value = warp_reduce<Op>(value, op);
    if constexpr (n_warps == 1) return value;
    __syncthreads();
    if (threadIdx.x % warp_size == 0) partial[threadIdx.x / warp_size] = value;
    __syncthreads();
    value = partial[0];
    for (int i = 1; i < n_warps; ++i) value = op(value, partial[i]);
    return value;
}

}  // namespace lm::cuda
