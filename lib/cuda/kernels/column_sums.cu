// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernels/column_sums.cuh"

#include "cuda/device/cuda_device.hpp"
#include "cuda/kernels/column_sums.hpp"
#include "cuda/kernels/kernel_launch.cuh"
#include "cuda/kernels/vector.cuh"

namespace lm::cuda {
namespace {

// A block of tree_columns x tree_rows threads sums tree_columns columns over all parts: the threads
// of one threadIdx.y add every tree_rows-th part, then the threads with y = 0 add the tree_rows
// partial sums.
constexpr int tree_columns = 32;
constexpr int tree_rows = 16;

__global__ void add_parts_kernel(PartSums sums, PartTargets targets, bool accumulate) {
    __shared__ float shared[tree_rows][tree_columns];
    const i64 column = i64{blockIdx.x} * tree_columns + threadIdx.x;
    float total = 0;
    if (column < sums.columns) {
        for (i64 i = threadIdx.y; i < sums.n_parts; i += tree_rows) {
            total += sums.parts[i * sums.stride + column];
        }
    }
    shared[threadIdx.y][threadIdx.x] = total;
    __syncthreads();
    if (threadIdx.y != 0 || column >= sums.columns) return;
    for (int y = 1; y < tree_rows; ++y) total += shared[y][threadIdx.x];
    const i64 which = column / targets.width;
    float* to = nullptr;
#pragma unroll
    for (int i = 0; i < PartTargets::most; ++i) {
        if (which == i) to = targets.to[i];
    }
    if (to == nullptr) return;
    to += column % targets.width;
    *to = accumulate ? *to + total : total;
}

template <typename T, int W>
__global__ void column_sums_kernel(const T* x, i64 rows, i64 columns, float* parts) {
    sum_columns<1, W>(rows, columns, parts, [&](i64 row, i64 column, float(&sums)[1][W]) {
        float values[W];
        load<W>(x + row * columns + column, values);
#pragma unroll
        for (int k = 0; k < W; ++k) sums[0][k] += values[k];
    });
}

}  // namespace

void add_parts(cudaStream_t stream, const PartSums& sums, const PartTargets& targets,
               bool accumulate) {
    launch(stream, add_parts_kernel, blocks_for(sums.columns, tree_columns),
           dim3(tree_columns, tree_rows), 0, sums, targets, accumulate);
}

void column_sums(cudaStream_t stream, const device::View& workspace, const device::View& x,
                 float* target, bool accumulate) {
    const i64 rows = x[0];
    const i64 columns = x[1];
    float* const parts = arena_of(workspace).reserve<float>(cost::column_sum_floats(rows, columns));
    with_row_width(x.dtype, columns, {x}, [&]<typename T, int W>(T, Width<W>) {
        launch(stream, column_sums_kernel<T, W>, sum_grid(rows, ceil_div(columns, W)), sum_block(),
               0, pointer<T>(x), rows, columns, parts);
    });
    add_parts(stream, {parts, cost::column_sum_parts(rows), columns, columns}, target, accumulate);
}

}  // namespace lm::cuda
