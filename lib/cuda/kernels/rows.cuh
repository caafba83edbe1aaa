// SPDX-License-Identifier: Apache-2.0
// Kernels over the rows of a matrix: how many elements a thread takes at a time, and which grid.
#pragma once

#include <initializer_list>
#include <type_traits>

#include "cuda/kernels/launch.cuh"
#include "cuda/kernels/vector.cuh"

namespace lm::cuda {

// Eight elements: one access of 16-bit types, two of fp32, and one block of dropout numbers.
constexpr int row_step = 8;

template <int W>
using Width = std::integral_constant<int, W>;

// Calls body(T{}, Width<row_step>{}) when rows of `width` elements can be read in such steps, else
// body(T{}, Width<1>{}): right for every shape, if slower.
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

// Threads for n steps of a row, evenly loaded, when at most `most` take part.
inline int row_threads(i64 n, i64 most) {
    const i64 turns = ceil_div(n, most);
    return static_cast<int>(round_up(ceil_div(n, turns), 32));
}

// A row to a block in x, its columns to blocks in y: one step of a row to a thread.
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
