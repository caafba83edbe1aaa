// SPDX-License-Identifier: Apache-2.0
// RMSNorms over all heads of the query and over all heads of the key. The kernels are bound by
// memory bandwidth. W is the number of adjacent columns that a thread accesses at a time.
#include "cost/cuda_scratch.hpp"
#include "cuda/device/cuda_device.hpp"
#include "cuda/device/ops.hpp"
#include "cuda/kernels/block_reduce.cuh"
#include "cuda/kernels/column_sums.cuh"
#include "cuda/kernels/column_sums.hpp"
#include "cuda/kernels/kernel_launch.cuh"
#include "cuda/kernels/rows.cuh"
#include "cuda/kernels/vector.cuh"

namespace lm::cuda {
namespace {

using device::JointNormBackward;
using device::JointNormForward;
using device::JointNormSums;

constexpr int sum_threads = 256;

// The columns of a row: of the query, then of the key, then of the values.
template <typename T>
struct Columns {
    const T* query_weight;  // [query] or nullptr
    const T* key_weight;    // [key] or nullptr
    i64 query, key, width;
    i64 rows;
    float eps;
    float offset;  // added to the weights
    float share;   // the share of the columns that this rank has

    __device__ i64 normed() const { return query + key; }
    __device__ bool is_key(i64 column) const { return column >= query; }
    template <int W>
    __device__ void read_factors(i64 column, float (&factors)[W]) const {
        load<W>(is_key(column) ? key_weight + column - query : query_weight + column, factors);
#pragma unroll
        for (int k = 0; k < W; ++k) factors[k] += offset;
    }
    // Returns 1 / rms of the query or of the key, to which `column` belongs.
    __device__ float rstd(const float* squares, i64 row, i64 column) const {
        const auto n = static_cast<float>(is_key(column) ? key : query);
        return 1.0F / sqrtf(squares[is_key(column) ? rows + row : row] * share / n + eps);
    }
};

template <typename T, typename Args>
Columns<T> columns_of(const Args& a) {
    return {.query_weight = pointer<T>(a.query_weight),
            .key_weight = pointer<T>(a.key_weight),
            .query = a.query_weight[0],
            .key = a.key_weight[0],
            .width = a.x[2],
            .rows = a.squares[1],
            .eps = static_cast<float>(a.eps),
            .offset = device::norm_offset(a.one_plus),
            .share = static_cast<float>(a.share)};
}
template <typename T>
Columns<T> columns_of(const JointNormSums& a) {
    return {.query_weight = pointer<T>(a.query_weight),
            .key_weight = pointer<T>(a.key_weight),
            .query = a.query,
            .key = a.key,
            .width = a.a[2],
            .rows = a.sums[1],
            .eps = 0,
            .offset = device::norm_offset(a.one_plus),
            .share = 1};
}

// A width that W = row_step divides only if it divides the columns of query, key and row.
template <typename T>
i64 common_width(const Columns<T>& c) {
    return c.query | c.key | c.width;
}

// Block (row, 0) computes the sum of the query, block (row, 1) that of the key.
template <typename T, int W>
__global__ void __launch_bounds__(sum_threads)
    sums(const T* a, const T* b, Columns<T> c, float* to) {
    const i64 row = blockIdx.x;
    const i64 begin = blockIdx.y == 0 ? 0 : c.query;
    const i64 end = blockIdx.y == 0 ? c.query : c.normed();
    float sum = 0.0F;
#pragma unroll 1  // more loads at a time do not fit into registers
    for (i64 i = begin + threadIdx.x * W; i < end; i += i64{sum_threads} * W) {
        float x[W];
        float y[W];
        load<W>(a + row * c.width + i, x);
        load<W>(b + row * c.width + i, y);
        if (c.query_weight) {
            float factors[W];
            c.read_factors(i, factors);
#pragma unroll
            for (int k = 0; k < W; ++k) x[k] *= factors[k];
        }
#pragma unroll
        for (int k = 0; k < W; ++k) sum += x[k] * y[k];
    }
    sum = block_reduce<sum_threads, Add>(sum);
    if (threadIdx.x == 0) to[blockIdx.y * c.rows + row] = sum;
}

template <typename T, int W>
__global__ void forward(const T* x, T* y, const float* squares, Columns<T> c) {
    const i64 row = blockIdx.x;
    const i64 column = first_column<W>();
    if (column >= c.width) return;
    float values[W];
    load<W>(x + row * c.width + column, values);
    if (column < c.normed()) {
        const float rstd = c.rstd(squares, row, column);
        float factors[W];
        c.read_factors(column, factors);
#pragma unroll
        for (int k = 0; k < W; ++k) values[k] = values[k] * rstd * factors[k];
    }
    store<W>(y + row * c.width + column, values);
}

// parts: [parts, Q + K] fp32, the sums of dy * x / rms over the rows of a block. It must be
// complete before input_gradient(), which may overwrite dy.
template <typename T, int W>
__global__ void __launch_bounds__(sum_lanes* sum_rows)
    weight_gradient(const T* dy, const T* x, const float* squares, Columns<T> c, float* parts) {
    sum_columns<1, W>(c.rows, c.normed(), parts, [&](i64 row, i64 column, float(&to)[1][W]) {
        float g[W];
        float values[W];
        load<W>(dy + row * c.width + column, g);
        load<W>(x + row * c.width + column, values);
        const float rstd = c.rstd(squares, row, column);
#pragma unroll
        for (int k = 0; k < W; ++k) to[0][k] += g[k] * values[k] * rstd;
    });
}

template <typename T, int W>
__global__ void input_gradient(const T* dy, const T* x, T* dx, const float* squares,
                               const float* products, Columns<T> c) {
    const i64 row = blockIdx.x;
    const i64 column = first_column<W>();
    if (column >= c.width) return;
    float g[W];
    load<W>(dy + row * c.width + column, g);
    if (column < c.normed()) {
        const float rstd = c.rstd(squares, row, column);
        const bool key = c.is_key(column);
        const auto n = static_cast<float>(key ? c.key : c.query);
        const float product = products[key ? c.rows + row : row];
        const float slope = rstd * rstd * rstd * product * c.share / n;
        float values[W];
        float factors[W];
        load<W>(x + row * c.width + column, values);
        c.read_factors(column, factors);
#pragma unroll
        for (int k = 0; k < W; ++k) g[k] = rstd * g[k] * factors[k] - values[k] * slope;
    }
    store<W>(dx + row * c.width + column, g);
}

}  // namespace

namespace ops {

void joint_norm_sums(device::Context& context, const JointNormSums& a) {
    const i64 width = common_width(columns_of<float>(a));
    with_row_width(a.a.dtype, width, {a.a, a.b, a.query_weight, a.key_weight},
                   [&]<typename T, int W>(T, Width<W>) {
                       launch(stream_of(context), sums<T, W>,
                              dim3(static_cast<unsigned>(a.sums[1]), 2), dim3(sum_threads), 0,
                              pointer<T>(a.a), pointer<T>(a.b), columns_of<T>(a),
                              pointer<float>(a.sums));
                   });
}

void joint_norm_forward(device::Context& context, const JointNormForward& a) {
    const i64 width = common_width(columns_of<float>(a));
    with_row_width(a.x.dtype, width, {a.x, a.y, a.query_weight, a.key_weight},
                   [&]<typename T, int W>(T, Width<W>) {
                       const RowGrid grid = row_grid(a.squares[1], ceil_div(a.x[2], W));
                       launch(stream_of(context), forward<T, W>, grid.blocks, dim3(grid.threads), 0,
                              pointer<T>(a.x), pointer<T>(a.y), pointer<float>(a.squares),
                              columns_of<T>(a));
                   });
}

void joint_norm_backward(device::Context& context, const JointNormBackward& a) {
    const i64 rows = a.squares[1];
    const Columns<float> c = columns_of<float>(a);
    const i64 normed = c.query + c.key;
    const i64 n_parts = cost::column_sum_parts(rows);
    float* const parts =
        arena_of(context.workspace).reserve<float>(cost::column_sum_floats(rows, normed));
    const cudaStream_t stream = stream_of(context);
    with_row_width(a.x.dtype, common_width(c), {a.dy, a.x, a.dx, a.query_weight, a.key_weight},
                   [&]<typename T, int W>(T, Width<W>) {
                       const Columns<T> columns = columns_of<T>(a);
                       launch(stream, weight_gradient<T, W>, sum_grid(rows, ceil_div(normed, W)),
                              sum_block(), 0, pointer<T>(a.dy), pointer<T>(a.x),
                              pointer<float>(a.squares), columns, parts);
                       const RowGrid grid = row_grid(rows, ceil_div(a.x[2], W));
                       launch(stream, input_gradient<T, W>, grid.blocks, dim3(grid.threads), 0,
                              pointer<T>(a.dy), pointer<T>(a.x), pointer<T>(a.dx),
                              pointer<float>(a.squares), pointer<float>(a.products), columns);
                   });
    add_parts(stream, {parts, n_parts, normed, c.query}, pointer<float>(a.dquery_weight),
              a.accumulate);
    add_parts(stream, {parts + c.query, n_parts, normed, c.key}, pointer<float>(a.dkey_weight),
              a.accumulate);
}

}  // namespace ops
}  // namespace lm::cuda
