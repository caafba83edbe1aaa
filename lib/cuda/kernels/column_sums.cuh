// SPDX-License-Identifier: Apache-2.0
// The first step of column sums (column_sums.hpp), for kernels that sum a function of the elements
// of each row.
#pragma once

#include <cuda_runtime.h>

#include "cost/cuda_scratch.hpp"
#include "cuda/kernels/rows.cuh"

namespace lm::cuda {

// A block of sum_lanes x sum_rows threads reads sum_rows rows at a time; threadIdx.x selects W
// adjacent columns (W: template argument of sum_columns()), threadIdx.y the row.
constexpr int sum_lanes = 32;
constexpr int sum_rows = 8;

inline dim3 sum_grid(i64 rows, i64 n_steps) {
    return dim3(static_cast<unsigned>(ceil_div(n_steps, sum_lanes)),
                static_cast<unsigned>(cost::column_sum_parts(rows)));
}
inline dim3 sum_block() {
    return dim3(sum_lanes, sum_rows);
}

// Writes parts[blockIdx.y][n][columns]: n sums for each column over the rows of this block.
// add(row, column, sums) adds the terms of W elements of row `row`, from `column` on, to
// sums[n][W]. The grid must be sum_grid(), the block sum_block(). The order of every sum is fixed:
// a thread adds every sum_rows-th row, then one thread adds the sum_rows partial sums from shared
// memory.
template <int n, int W, typename AddRow>
__device__ void sum_columns(i64 rows, i64 columns, float* parts, const AddRow& add) {
    __shared__ float shared[sum_rows][n][sum_lanes * W];
    const i64 first = i64{blockIdx.x} * sum_lanes * W;
    const i64 column = first + threadIdx.x * W;
    const i64 per_part = cost::column_sum_rows(rows);
    const i64 begin = blockIdx.y * per_part;
    const i64 end = begin + per_part < rows ? begin + per_part : rows;
    float sums[n][W] = {};
    if (column < columns) {
        for (i64 row = begin + threadIdx.y; row < end; row += sum_rows) add(row, column, sums);
    }
    for (int s = 0; s < n; ++s) {
        for (int k = 0; k < W; ++k) shared[threadIdx.y][s][threadIdx.x * W + k] = sums[s][k];
    }
    __syncthreads();
    const int thread = static_cast<int>(threadIdx.y * sum_lanes + threadIdx.x);
    for (int i = thread; i < n * sum_lanes * W; i += sum_lanes * sum_rows) {
        const int s = i / (sum_lanes * W);
        const int offset = i % (sum_lanes * W);
        if (first + offset >= columns) continue;
        float total = 0;
        for (int y = 0; y < sum_rows; ++y) total += shared[y][s][offset];
        parts[(i64{blockIdx.y} * n + s) * columns + first + offset] = total;
    }
}

}  // namespace lm::cuda
