// SPDX-License-Identifier: Apache-2.0
// Gated activations. A row of x has the `width` columns of the gate, then the `width` columns of
// the up projection. Block (r, c) processes row r; c and the thread select the columns (rows.cuh).
#include "cuda/device/cuda_device.hpp"
#include "cuda/device/ops.hpp"
#include "cuda/kernels/activation.cuh"
#include "cuda/kernels/kernel_launch.cuh"
#include "cuda/kernels/rows.cuh"
#include "cuda/kernels/vector.cuh"

namespace lm::cuda {
namespace {

using device::GatedBackward;
using device::GatedForward;

template <typename T, int W, typename Function>
__global__ void forward(const T* x, T* y, i64 width) {
    const i64 column = first_column<W>();
    if (column >= width) return;
    const T* const row = x + blockIdx.x * 2 * width + column;
    float gate[W];
    float up[W];
    load<W>(row, gate);
    load<W>(row + width, up);
#pragma unroll
    for (int k = 0; k < W; ++k) gate[k] = Function::value(gate[k]) * up[k];
    store<W>(y + blockIdx.x * width + column, gate);
}

template <typename T, int W, typename Function>
__global__ void backward(const T* dy, const T* x, T* dx, i64 width) {
    const i64 column = first_column<W>();
    if (column >= width) return;
    const i64 at = blockIdx.x * 2 * width + column;
    float gate[W];
    float up[W];
    float gradient[W];
    load<W>(x + at, gate);
    load<W>(x + at + width, up);
    load<W>(dy + blockIdx.x * width + column, gradient);
#pragma unroll
    for (int k = 0; k < W; ++k) {
        const Slope gated = Function::slope(gate[k]);
        gate[k] = gated.slope * up[k] * gradient[k];
        up[k] = gated.value * gradient[k];
    }
    store<W>(dx + at, gate);
    store<W>(dx + at + width, up);
}

}  // namespace

namespace ops {

void gated_forward(device::Context& context, const GatedForward& a) {
    const i64 width = a.y[1];
    with_row_width(a.y.dtype, width, {a.x, a.y}, [&]<typename T, int W>(T, Width<W>) {
        const RowGrid grid = row_grid(a.y[0], width / W);
        with_gate(a.gate, [&]<typename Function>(Function) {
            launch(stream_of(context), forward<T, W, Function>, grid.blocks, grid.threads, 0,
                   pointer<T>(a.x), pointer<T>(a.y), width);
        });
    });
}

void gated_backward(device::Context& context, const GatedBackward& a) {
    const i64 width = a.dy[1];
    with_row_width(a.dy.dtype, width, {a.dy, a.x, a.dx}, [&]<typename T, int W>(T, Width<W>) {
        const RowGrid grid = row_grid(a.dy[0], width / W);
        with_gate(a.gate, [&]<typename Function>(Function) {
            launch(stream_of(context), backward<T, W, Function>, grid.blocks, grid.threads, 0,
                   pointer<T>(a.dy), pointer<T>(a.x), pointer<T>(a.dx), width);
        });
    });
}

}  // namespace ops
}  // namespace lm::cuda
