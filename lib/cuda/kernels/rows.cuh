// SPDX-License-Identifier: Apache-2.0
// For kernels over the rows of a matrix: chooses the number of elements that a thread loads at a
// time, and the grid.
#pragma once

#include <initializer_list>
#include <type_traits>

#include "cuda/kernels/kernel_launch.cuh"
#include "cuda/kernels/vector.cuh"

namespace lm::cuda {

// The number of elements that a thread loads at a time: one 16-byte access for a 16-bit type, two
// accesses for fp32, and one Philox block for dropout.
constexpr int row_step = 8;

template <int W>
using Width = std::integral_constant<int, W>;

// Calls body(T{}, Width<row_step>{}) when every row of `width` elements can be read in aligned
// steps of row_step elements, else body(T{}, Width<1>{}), which is slower but correct for every
// shape. views: matrices [rows, width], fp32, bf16 or fp16 as `dtype` states.
template <typename Body>
void with_row_width(DType dtype, i64 width, std::initializer_list<device::View> views,
                    Body&& body) {
    bool whole = width % row_step == 0;
    for (const device::View& view : views) {
        whole = whole && reinterpret_cast<uintptr_t>(view.data) % 16 == 0;
    }
    with_type(dtype, [&]<typename T>(T zero) {
        if (whole) return body(zero, Width<row_step>{});
        body(zero, Width<1>{});
    });
}

// Returns the number of threads of a block that processes n steps of a row: a multiple of 32, at
// most `most` rounded up to a multiple of 32. The steps are evenly distributed over the threads.
inline int row_threads(i64 n, i64 most) {
    const i64 turns = ceil_div(n, most);
    return static_cast<int>(round_up(ceil_div(n, turns), 32));
}

// The grid of a kernel over rows: blockIdx.x is the row, blockIdx.y a range of columns. Each thread
// processes one step of columns.
struct RowGrid {
    dim3 blocks;
    int threads;
};
inline RowGrid row_grid(i64 rows, i64 n_steps) {
    constexpr i64 most = 256;
    const int threads = row_threads(n_steps, most);
    return {dim3(static_cast<unsigned>(rows), static_cast<unsigned>(ceil_div(n_steps, threads))),
            threads};
}
template <int W>
__device__ i64 first_column() {
    return (i64{blockIdx.y} * blockDim.x + threadIdx.x) * W;
}

}  // namespace lm::cuda
