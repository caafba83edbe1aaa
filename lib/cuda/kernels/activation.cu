// SPDX-License-Identifier: Apache-2.0
// Activations of whole matrices. A thread accesses 16 bytes of each matrix, or one element if an
// address is not aligned.
#include "cuda/kernels/activation.cuh"

#include "cuda/device/cuda_device.hpp"
#include "cuda/device/ops.hpp"
#include "cuda/kernels/activation.hpp"
#include "cuda/kernels/kernel_launch.cuh"
#include "cuda/kernels/vector.cuh"

namespace lm::cuda {
namespace {

constexpr int block_threads = 256;

// Thread i processes elements [i W, (i + 1) W) of n; the last thread processes the n % W elements
// that remain.
template <typename T, int W, typename Function>
__global__ void activate_kernel(const T* x, T* y, i64 n) {
    const i64 i = (i64{blockIdx.x} * blockDim.x + threadIdx.x) * W;
    if (i + W <= n) {
        float values[W];
        load<W>(x + i, values);
#pragma unroll
        for (int k = 0; k < W; ++k) values[k] = Function::value(values[k]);
        store<W>(y + i, values);
        return;
    }
    for (i64 k = i; k < n; ++k) y[k] = from_float<T>(Function::value(to_float(x[k])));
}

template <typename T, int W, typename Function>
__global__ void activate_backward_kernel(const T* pre, T* dx, i64 n) {
    const i64 i = (i64{blockIdx.x} * blockDim.x + threadIdx.x) * W;
    if (i + W <= n) {
        float values[W];
        float gradients[W];
        load<W>(pre + i, values);
        load<W>(dx + i, gradients);
#pragma unroll
        for (int k = 0; k < W; ++k) gradients[k] *= Function::slope(values[k]).slope;
        store<W>(dx + i, gradients);
        return;
    }
    for (i64 k = i; k < n; ++k) {
        dx[k] = from_float<T>(to_float(dx[k]) * Function::slope(to_float(pre[k])).slope);
    }
}

// blockIdx.x is the row of y, blockIdx.y a range of columns.
template <typename T>
__global__ void repeat_row_kernel(const T* row, T* y, i64 width) {
    const i64 column = i64{blockIdx.y} * blockDim.x + threadIdx.x;
    if (column >= width) return;
    y[blockIdx.x * width + column] = row[column];
}

// Calls body(T{}, std::integral_constant<int, W>{}), where W is the number of elements that a
// thread accesses at a time: 16 bytes if both pointers are aligned, else one element. T is the type
// of a. a and b: [N, C] compute.
template <typename Body>
void with_width(const device::View& a, const device::View& b, Body&& body) {
    with_type(a.dtype, [&]<typename T>(T zero) {
        constexpr int W = per_access<T>;
        if (aligned(pointer<T>(a)) && aligned(pointer<T>(b))) {
            return body(zero, std::integral_constant<int, W>{});
        }
        body(zero, std::integral_constant<int, 1>{});
    });
}

}  // namespace

void activate(cudaStream_t stream, device::Activation activation, const device::View& x,
              const device::View& y) {
    const i64 n = x.numel();
    if (activation == device::Activation::none) {
        cudaMemcpyAsync(y.data, x.data, static_cast<size_t>(x.bytes()), cudaMemcpyDeviceToDevice,
                        stream);
        return;
    }
    with_width(x, y, [&]<typename T, int W>(T, std::integral_constant<int, W>) {
        with_activation(activation, [&]<typename Function>(Function) {
            launch(stream, activate_kernel<T, W, Function>, blocks_for(n, i64{block_threads} * W),
                   block_threads, 0, pointer<T>(x), pointer<T>(y), n);
        });
    });
}

void activate_backward(cudaStream_t stream, device::Activation activation, const device::View& pre,
                       const device::View& dx) {
    const i64 n = dx.numel();
    with_width(pre, dx, [&]<typename T, int W>(T, std::integral_constant<int, W>) {
        with_activation(activation, [&]<typename Function>(Function) {
            launch(stream, activate_backward_kernel<T, W, Function>,
                   blocks_for(n, i64{block_threads} * W), block_threads, 0, pointer<T>(pre),
                   pointer<T>(dx), n);
        });
    });
}

void repeat_row(cudaStream_t stream, const device::View& row, const device::View& y) {
    const dim3 grid(static_cast<unsigned>(y[0]),
                    static_cast<unsigned>(ceil_div(y[1], block_threads)));
    with_type(y.dtype, [&]<typename T>(T) {
        launch(stream, repeat_row_kernel<T>, grid, block_threads, 0, pointer<T>(row), pointer<T>(y),
               y[1]);
    });
}

namespace ops {

void activation_forward(device::Context& context, const device::ActivationForward& a) {
    activate(stream_of(context), a.activation, a.x, a.y);
}

}  // namespace ops
}  // namespace lm::cuda
