// SPDX-License-Identifier: Apache-2.0
// Reductions over a warp or a block in an order that depends on the block size only, so that every
// run computes the same bits.
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
// Returns NaN when an argument is NaN. fmaxf() would return the argument that is not NaN.
struct Max {
    __device__ float operator()(float a, float b) const { return maximum(a, b); }
};

// Returns the reduction over the warp to every lane; all 32 lanes must call it. In each step, a
// lane combines its value with the value of the lane whose number differs in one bit (butterfly).
template <typename Op, typename T>
__device__ T warp_reduce(T value, Op op = {}) {
    for (int distance = warp_size / 2; distance > 0; distance /= 2) {
        value = op(value, __shfl_xor_sync(all_lanes, value, distance));
    }
    return value;
}

// Returns the reduction over the block to every thread; all threads of a one-dimensional block of
// `threads`, a multiple of 32, must call it. The first barrier keeps a second call from overwriting
// `partial` while slower threads still read the partial results of the first.
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
