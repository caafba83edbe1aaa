// SPDX-License-Identifier: Apache-2.0
// Dropout, residual sum and norm forward: LayerNorm (Ba et al., 2016), RMSNorm (Zhang & Sennrich,
// 2019). A block computes one row. It stores the row's sum in shared memory while it computes the
// mean, then the variance, then the output, so that global memory is read and written once. The two
// passes for mean and variance avoid the cancellation of E[x^2] - E[x]^2.
#include "cuda/device/cuda_device.hpp"
#include "cuda/device/ops.hpp"
#include "cuda/kernels/kernel_launch.cuh"
#include "cuda/kernels/residual_norm.cuh"
#include "cuda/kernels/shared.cuh"
#include "cuda/kernels/vector.cuh"

namespace lm::cuda {
namespace {

using device::Norm;
using device::ResidualNormForward;

constexpr int max_threads = 512;
// Rows up to this size are stored in shared memory; longer rows recompute the sum in every pass.
constexpr i64 max_kept_bytes = i64{96} << 10;

template <typename T>
struct Forward {
    const T* branch;
    const T* residual;
    T* sum;
    const T* weight;
    const T* bias;
    T* y;
    float* mean;  // nullptr: RMSNorm
    float* rstd;
    i64 width;
    float eps;
    float offset;  // added to the weights
    bool kept;     // the row is stored in shared memory
    RowDropout dropout;
};

// Computes W elements of residual + dropout(branch), rounded to T. The norm must read the rounded
// values, because backward reads them from `sum`.
template <int W, typename T>
__device__ void compute_sum(const Forward<T>& a, const DropoutRow& dropout, i64 row, i64 column,
                            float (&x)[W]) {
    const i64 at = row * a.width + column;
#pragma unroll
    for (int k = 0; k < W; ++k) x[k] = 0.0F;
    if (a.branch) {
        load<W>(a.branch + at, x);
        dropout.apply(column, x);
    }
    if (a.residual) {
        float stream[W];
        load<W>(a.residual + at, stream);
#pragma unroll
        for (int k = 0; k < W; ++k) x[k] += stream[k];
    }
#pragma unroll
    for (int k = 0; k < W; ++k) x[k] = to_float(from_float<T>(x[k]));
}

template <typename T, int W>
__global__ void forward(const Forward<T> a) {
    const i64 row = blockIdx.x;
    const DropoutRow dropout(a.dropout, row);
    T* const kept = dynamic_shared<T>();
    const i64 step = i64{blockDim.x} * W;
    const i64 begin = i64{threadIdx.x} * W;
    const auto sum_again = [&](i64 column, float(&x)[W]) {
        if (a.kept) return load<W>(kept + column, x);
        compute_sum<W>(a, dropout, row, column, x);
    };
    float total[1] = {0.0F};
    float x[W];
    for (i64 column = begin; column < a.width; column += step) {
        compute_sum<W>(a, dropout, row, column, x);
        if (a.kept && a.y) store<W>(kept + column, x);
        // `sum` may alias an input, so when later passes recompute the sum, only the last stores
        // it.
        if (a.sum && (a.kept || !a.y)) store<W>(a.sum + row * a.width + column, x);
#pragma unroll
        for (int k = 0; k < W; ++k) total[0] += x[k];
    }
    if (!a.y) return;
    float mean = 0.0F;
    if (a.mean) {
        sum_row<max_threads>(total, 0);
        mean = total[0] / static_cast<float>(a.width);
    }
    float square[1] = {0.0F};
    for (i64 column = begin; column < a.width; column += step) {
        sum_again(column, x);
#pragma unroll
        for (int k = 0; k < W; ++k) square[0] += (x[k] - mean) * (x[k] - mean);
    }
    sum_row<max_threads>(square, 1);
    const float rstd = 1.0F / sqrtf(square[0] / static_cast<float>(a.width) + a.eps);
    if (threadIdx.x == 0) {
        if (a.mean) a.mean[row] = mean;
        a.rstd[row] = rstd;
    }
    for (i64 column = begin; column < a.width; column += step) {
        sum_again(column, x);
        if (a.sum && !a.kept) store<W>(a.sum + row * a.width + column, x);
        float scale[W];
        load<W>(a.weight + column, scale);
#pragma unroll
        for (int k = 0; k < W; ++k) x[k] = (x[k] - mean) * rstd * (scale[k] + a.offset);
        if (a.bias) {
            load<W>(a.bias + column, scale);
#pragma unroll
            for (int k = 0; k < W; ++k) x[k] += scale[k];
        }
        store<W>(a.y + row * a.width + column, x);
    }
}

}  // namespace

namespace ops {

void residual_norm_forward(device::Context& context, const ResidualNormForward& a) {
    const device::View& main = a.branch ? a.branch : a.residual;
    const i64 rows = main[0];
    const i64 width = main[1];
    const auto views = {a.branch, a.residual, a.sum, a.weight, a.bias, a.y};
    with_row_width(main.dtype, width, views, [&]<typename T, int W>(T, Width<W>) {
        const i64 row_bytes = width * static_cast<i64>(sizeof(T));
        const bool kept = row_bytes <= max_kept_bytes;
        const Forward<T> args{.branch = pointer<T>(a.branch),
                              .residual = pointer<T>(a.residual),
                              .sum = pointer<T>(a.sum),
                              .weight = pointer<T>(a.weight),
                              .bias = pointer<T>(a.bias),
                              .y = pointer<T>(a.y),
                              .mean = spec::is_centred(a.norm) ? pointer<float>(a.mean) : nullptr,
                              .rstd = pointer<float>(a.rstd),
                              .width = width,
                              .eps = static_cast<float>(a.eps),
                              .offset = device::norm_offset(a.one_plus),
                              .kept = kept,
                              .dropout = RowDropout(a.dropout, rows, width)};
        launch(stream_of(context), forward<T, W>, blocks_for(rows, 1),
               row_threads(ceil_div(width, W), max_threads),
               static_cast<size_t>(kept && a.y ? row_bytes : 0), args);
    });
}

}  // namespace ops
}  // namespace lm::cuda
