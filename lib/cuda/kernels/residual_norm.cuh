// SPDX-License-Identifier: Apache-2.0
// Device functions that the forward and backward kernels of dropout + residual sum + norm share.
#pragma once

#include <cuda_runtime.h>

#include <bit>

#include "cuda/kernels/block_reduce.cuh"
#include "cuda/kernels/dropout.cuh"
#include "cuda/kernels/rows.cuh"
#include "device/ops.hpp"

namespace lm::cuda {

// Dropout of a row operation: the mask's numbers, and the position of rows in their samples.
struct RowDropout {
    RowDropout(const device::Dropout& dropout, i64 rows, i64 row_width)
        : numbers(dropout_numbers(dropout)) {
        if (!dropout.on()) return;
        samples = static_cast<const i64*>(dropout.sample_ids.data);
        first_row = dropout.first_row;
        sample_rows = dropout.sample_rows > 0 ? dropout.sample_rows : rows / dropout.sample_ids[0];
        width = row_width;
    }
    DropoutNumbers numbers;
    const i64* samples = nullptr;  // [B]
    i64 first_row = 0;
    i64 sample_rows = 1;
    i64 width = 0;
};

// Dropout of one row. apply() multiplies W elements from `column` on by their factors. The W
// elements must be within one Philox block: W is 1, or 8 with a row width that is a multiple of 8.
class DropoutRow {
  public:
    __device__ DropoutRow(const RowDropout& dropout, i64 row) : numbers_(dropout.numbers) {
        if (numbers_.threshold == 0) return;
        const u32 place = static_cast<u32>(dropout.first_row + row);
        const u32 sample_rows = static_cast<u32>(dropout.sample_rows);
        sample_ = static_cast<u64>(dropout.samples[place / sample_rows]);
        first_ = u64{place % sample_rows} * static_cast<u64>(dropout.width);
    }
    template <int W>
    __device__ void apply(i64 column, float (&x)[W]) const {
        static_assert(W == 1 || W == row_step);
        if (numbers_.threshold == 0) {
#pragma unroll
            for (int k = 0; k < W; ++k) x[k] *= numbers_.scale;
            return;
        }
        const u64 element = first_ + static_cast<u64>(column);
        const DropoutBlock block = dropout_block(numbers_.key, sample_, element / 8);
        const int offset = W == 1 ? static_cast<int>(element % 8) : 0;
#pragma unroll
        for (int k = 0; k < W; ++k) {
            const bool kept = block.number(offset + k) >= numbers_.threshold;
            x[k] = kept ? x[k] * numbers_.scale : 0.0F;
        }
    }

  private:
    const DropoutNumbers& numbers_;
    u64 sample_ = 0;
    u64 first_ = 0;
};

// Sums each of `n` values over the threads of a row and returns the sums to all of them. A row has
// blockDim.x threads, a multiple of 32. A block has blockDim.y rows and at most max_threads
// threads. All threads of the block must call it. The barrier inside makes the warps' partial sums
// visible. Consecutive calls must alternate `turn` between 0 and 1, so that a fast warp does not
// overwrite partial sums that a slow warp still reads: calls i and i + 2 use the same memory, and
// the barrier of call i + 1 separates them.
template <int max_threads, int n>
__device__ void sum_row(float (&values)[n], u32 turn) {
    constexpr int max_warps = max_threads / warp_size;
    static_assert(std::has_single_bit(static_cast<unsigned>(max_warps)) && max_warps <= warp_size);
    __shared__ Pack<float, n> shared[2][max_warps];
    const int warps = static_cast<int>(blockDim.x) / warp_size;
    const int first = static_cast<int>(threadIdx.y) * warps;
    const int lane = static_cast<int>(threadIdx.x) % warp_size;
#pragma unroll
    for (int i = 0; i < n; ++i) values[i] = warp_reduce<Add>(values[i]);
    if (lane == 0) {
        shared[turn][first + static_cast<int>(threadIdx.x) / warp_size].set(values);
    }
    __syncthreads();
    Pack<float, n> part{};
    if (lane % max_warps < warps) part = shared[turn][first + lane % max_warps];
    part.get(values);
#pragma unroll
    for (int distance = max_warps / 2; distance > 0; distance /= 2) {
#pragma unroll
        for (int i = 0; i < n; ++i) values[i] += __shfl_xor_sync(all_lanes, values[i], distance);
    }
}

}  // namespace lm::cuda
