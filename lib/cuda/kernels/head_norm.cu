// SPDX-License-Identifier: Apache-2.0
// Norms of the heads of query and key. Bound by memory bandwidth. A warp processes one head at a
// time, in registers: a lane has columns lane, lane + 32, ...
#include <algorithm>

#include "cost/cuda_scratch.hpp"
#include "cuda/cuda_device.hpp"
#include "cuda/kernels/block_reduce.cuh"
#include "cuda/kernels/column_sums.hpp"
#include "cuda/kernels/kernel_launch.cuh"
#include "cuda/kernels/vector.cuh"
#include "cuda/ops.hpp"

namespace lm::cuda {
namespace {

using device::HeadNormBackward;
using device::HeadNormForward;
using device::Norm;

constexpr int warps = 8;  // warps of a block
constexpr int widest = static_cast<int>(device::widest_normed_head);
constexpr int columns = widest / warp_size;  // columns of a lane

struct Shape {
    i64 tokens;
    int heads;    // heads of a row, values included
    int queries;  // H
    int normed;   // H + G
    int width;    // D
    float eps;
    float offset;  // added to the weights
    bool centred;
};

template <typename Args>
Shape shape_of(const Args& a) {
    const i64 width = a.query_weight[0];
    return {.tokens = a.x[0] * a.x[1],
            .heads = static_cast<int>(a.x[2] / width),
            .queries = static_cast<int>(a.n_heads),
            .normed = static_cast<int>(a.n_heads + a.n_groups),
            .width = static_cast<int>(width),
            .eps = static_cast<float>(a.eps),
            .offset = device::norm_offset(a.one_plus),
            .centred = a.norm == Norm::layer_norm};
}

template <typename T>
struct Parameters {
    const T* weight;  // [D]
    const T* bias;    // [D] or nullptr
};

__device__ inline int column_of(int k) {
    return static_cast<int>(threadIdx.x) % warp_size + k * warp_size;
}

// Reads a row of `width` elements; columns after the end are 0.
template <typename T>
__device__ void read_row(const T* x, int width, float (&row)[columns]) {
#pragma unroll
    for (int k = 0; k < columns; ++k)
        row[k] = column_of(k) < width ? to_float(x[column_of(k)]) : 0.0F;
}

template <typename T>
__device__ void write_row(T* y, int width, const float (&row)[columns]) {
#pragma unroll
    for (int k = 0; k < columns; ++k) {
        if (column_of(k) < width) y[column_of(k)] = from_float<T>(row[k]);
    }
}

// Replaces x by (x - mean) * rstd and returns rstd. Columns after the end are 0.
__device__ inline float standardize(const Shape& s, float (&x)[columns]) {
    const auto n = static_cast<float>(s.width);
    float mean = 0.0F;
    if (s.centred) {
#pragma unroll
        for (int k = 0; k < columns; ++k) mean += x[k];
        mean = warp_reduce<Add>(mean) / n;
    }
    float square = 0.0F;
#pragma unroll
    for (int k = 0; k < columns; ++k) {
        x[k] = column_of(k) < s.width ? x[k] - mean : 0.0F;
        square += x[k] * x[k];
    }
    const float rstd = 1.0F / sqrtf(warp_reduce<Add>(square) / n + s.eps);
#pragma unroll
    for (int k = 0; k < columns; ++k) x[k] *= rstd;
    return rstd;
}

template <typename T>
__global__ void forward(const T* x, T* y, Parameters<T> query, Parameters<T> key, Shape s) {
    const i64 item = i64{blockIdx.x} * warps + threadIdx.x / warp_size;
    if (item >= s.tokens * s.heads) return;
    const int head = static_cast<int>(item % s.heads);
    float row[columns];
    read_row(x + item * s.width, s.width, row);
    if (head < s.normed) {
        const Parameters<T> p = head < s.queries ? query : key;
        standardize(s, row);
        float factor[columns];
        float bias[columns] = {};
        read_row(p.weight, s.width, factor);
        if (p.bias) read_row(p.bias, s.width, bias);
#pragma unroll
        for (int k = 0; k < columns; ++k) row[k] = row[k] * (factor[k] + s.offset) + bias[k];
    }
    write_row(y + item * s.width, s.width, row);
}

template <typename T>
struct Backward {
    const T* dy;
    const T* x;
    T* dx;
    float* parts;   // [blocks, 4, D]: weight and bias of the query, weight and bias of the key
    i64 per_block;  // tokens
    Shape shape;
};

// Computes dx of the heads [first, end) of the block's tokens, and writes the gradients of weight
// and bias, summed over these heads, to shared[2][D]. The warps add to `shared` in sequence.
template <typename T>
__device__ void backward_heads(const Backward<T>& a, const T* weights, int first, int end,
                               float (*shared)[widest]) {
    const Shape& s = a.shape;
    const i64 begin = blockIdx.x * a.per_block;
    const i64 tokens = s.tokens - begin < a.per_block ? s.tokens - begin : a.per_block;
    const int warp = static_cast<int>(threadIdx.x) / warp_size;
    const auto n = static_cast<float>(s.width);
    float weight[columns];
    float dweight[columns] = {};
    float dbias[columns] = {};
    read_row(weights, s.width, weight);
    for (i64 i = warp; i < tokens * (end - first); i += warps) {
        const i64 token = begin + i / (end - first);
        const i64 at = (token * s.heads + first + i % (end - first)) * s.width;
        float xhat[columns];
        float g[columns];
        read_row(a.x + at, s.width, xhat);
        read_row(a.dy + at, s.width, g);
        const float rstd = standardize(s, xhat);
        float sums[2] = {};
#pragma unroll
        for (int k = 0; k < columns; ++k) {
            dweight[k] += g[k] * xhat[k];
            dbias[k] += g[k];
            g[k] *= weight[k] + s.offset;
            sums[0] += g[k];
            sums[1] += g[k] * xhat[k];
        }
        const float mean_g = s.centred ? warp_reduce<Add>(sums[0]) / n : 0.0F;
        const float mean_gx = warp_reduce<Add>(sums[1]) / n;
#pragma unroll
        for (int k = 0; k < columns; ++k) g[k] = rstd * (g[k] - mean_g - xhat[k] * mean_gx);
        write_row(a.dx + at, s.width, g);
    }
    for (int turn = 0; turn < warps; ++turn) {
        __syncthreads();
        if (turn != warp) continue;
#pragma unroll
        for (int k = 0; k < columns; ++k) {
            float* const sums = shared[0] + column_of(k);
            sums[0] = turn == 0 ? dweight[k] : sums[0] + dweight[k];
            sums[widest] = turn == 0 ? dbias[k] : sums[widest] + dbias[k];
        }
    }
}

// Block b processes per_block tokens. dx may alias dy, because a warp reads a head before it writes
// that head.
template <typename T>
__global__ void backward(Backward<T> a, const T* query_weight, const T* key_weight) {
    __shared__ float shared[4][widest];
    const Shape& s = a.shape;
    backward_heads(a, query_weight, 0, s.queries, shared);
    backward_heads(a, key_weight, s.queries, s.normed, shared + 2);
    __syncthreads();
    float* const parts = a.parts + i64{blockIdx.x} * 4 * s.width;
    for (int i = static_cast<int>(threadIdx.x); i < 4 * s.width; i += warps * warp_size) {
        parts[i] = shared[i / s.width][i % s.width];
    }
    if (a.dx == a.dy) return;
    const i64 begin = blockIdx.x * a.per_block;
    const i64 tokens = s.tokens - begin < a.per_block ? s.tokens - begin : a.per_block;
    const i64 rest = i64{s.heads - s.normed} * s.width;
    for (i64 i = threadIdx.x; i < tokens * rest; i += warps * warp_size) {
        const i64 at = (begin + i / rest) * s.heads * s.width + i64{s.normed} * s.width + i % rest;
        a.dx[at] = a.dy[at];
    }
}

}  // namespace

namespace ops {

void head_norm_forward(device::Context& context, const HeadNormForward& a) {
    const Shape s = shape_of(a);
    with_type(a.x.dtype, [&]<typename T>(T) {
        launch(stream_of(context), forward<T>, blocks_for(s.tokens * s.heads, warps),
               dim3(warps * warp_size), 0, pointer<T>(a.x), pointer<T>(a.y),
               Parameters<T>{pointer<T>(a.query_weight), pointer<T>(a.query_bias)},
               Parameters<T>{pointer<T>(a.key_weight), pointer<T>(a.key_bias)}, s);
    });
}

void head_norm_backward(device::Context& context, const HeadNormBackward& a) {
    const Shape s = shape_of(a);
    const i64 width = s.width;
    const i64 n_parts = cost::column_sum_parts(s.tokens);
    float* const parts =
        arena_of(context.workspace).reserve<float>(cost::column_sum_floats(s.tokens, 4 * width));
    const cudaStream_t stream = stream_of(context);
    with_type(a.x.dtype, [&]<typename T>(T) {
        const Backward<T> args{.dy = pointer<T>(a.dy),
                               .x = pointer<T>(a.x),
                               .dx = pointer<T>(a.dx),
                               .parts = parts,
                               .per_block = cost::column_sum_rows(s.tokens),
                               .shape = s};
        launch(stream, backward<T>, blocks_for(n_parts, 1), dim3(warps * warp_size), 0, args,
               pointer<T>(a.query_weight), pointer<T>(a.key_weight));
    });
    add_parts(stream, {parts, n_parts, 4 * width, 4 * width},
              {.to = {pointer<float>(a.dquery_weight), pointer<float>(a.dquery_bias),
                      pointer<float>(a.dkey_weight), pointer<float>(a.dkey_bias)},
               .width = width},
              a.accumulate);
}

}  // namespace ops
}  // namespace lm::cuda
