// SPDX-License-Identifier: Apache-2.0
// Norms of the heads of query and key. The kernels are bound by memory bandwidth. W is the number
// of adjacent columns that a lane accesses at a time. W = 8: a group of 1 to 32 lanes processes a
// head in registers; 8 columns of a 16-bit type are 16 bytes. W = 1, for widths and addresses that
// do not allow W = 8: a warp processes a head, and a lane has columns lane, lane + 32, ...
#include <bit>

#include "cost/cuda_scratch.hpp"
#include "cuda/device/cuda_device.hpp"
#include "cuda/device/ops.hpp"
#include "cuda/kernels/block_reduce.cuh"
#include "cuda/kernels/column_sums.hpp"
#include "cuda/kernels/kernel_launch.cuh"
#include "cuda/kernels/rows.cuh"
#include "cuda/kernels/vector.cuh"

namespace lm::cuda {
namespace {

using device::HeadNormBackward;
using device::HeadNormForward;
using device::Norm;

constexpr int warps = 8;  // warps of a block
constexpr int threads = warps * warp_size;
constexpr int widest = static_cast<int>(device::widest_normed_head);
constexpr int columns = widest / warp_size;  // columns of a lane

struct Shape {
    i64 tokens;
    int heads;    // heads of a row, values included
    int queries;  // H
    int normed;   // H + G
    int width;    // D
    int lanes;    // lanes of a head, a power of 2
    float eps;
    float offset;  // added to the weights
    bool centred;
    __device__ int groups() const { return warp_size / lanes; }  // heads of a warp at a time
    __device__ int lane() const { return static_cast<int>(threadIdx.x) % lanes; }
    // Return the number of this thread's group: group() among the groups of all blocks,
    // group_of_block() among the groups of this block.
    __device__ i64 group() const { return i64{blockIdx.x} * warps * groups() + group_of_block(); }
    __device__ int group_of_block() const { return static_cast<int>(threadIdx.x) / lanes; }
};

template <int W, typename Args>
Shape shape_of(const Args& a) {
    const i64 width = a.query_weight[0];
    const auto steps = static_cast<unsigned>(ceil_div(width, W));
    return {.tokens = a.x[0] * a.x[1],
            .heads = static_cast<int>(a.x[2] / width),
            .queries = static_cast<int>(a.n_heads),
            .normed = static_cast<int>(a.n_heads + a.n_groups),
            .width = static_cast<int>(width),
            .lanes = W == 1 ? warp_size : static_cast<int>(std::bit_ceil(steps)),
            .eps = static_cast<float>(a.eps),
            .offset = device::norm_offset(a.one_plus),
            .centred = spec::is_centred(a.norm)};
}

template <typename T>
struct Parameters {
    const T* weight;  // [D]
    const T* bias;    // [D] or nullptr
};

template <int W>
__device__ int column_of(const Shape& s, int k) {
    return W == 1 ? s.lane() + k * warp_size : s.lane() * W + k;
}

// Reads a row of `width` elements: D, or 0 if the group has no head. Columns after the end are 0.
template <int W, typename T>
__device__ void read_row(const T* x, const Shape& s, int width, float (&row)[columns]) {
    if constexpr (W == columns) {
        if (column_of<W>(s, 0) < width) return load<W>(x + column_of<W>(s, 0), row);
    }
#pragma unroll
    for (int k = 0; k < columns; ++k) {
        const bool read = W == 1 && column_of<W>(s, k) < width;
        row[k] = read ? to_float(x[column_of<W>(s, k)]) : 0.0F;
    }
}

template <int W, typename T>
__device__ void write_row(T* y, const Shape& s, int width, const float (&row)[columns]) {
    if constexpr (W == columns) {
        if (column_of<W>(s, 0) < width) store<W>(y + column_of<W>(s, 0), row);
    } else {
#pragma unroll
        for (int k = 0; k < columns; ++k) {
            if (column_of<W>(s, k) < width) y[column_of<W>(s, k)] = from_float<T>(row[k]);
        }
    }
}

// Returns to each lane of a head the sum over the lanes of this head. All lanes of the warp must
// call it.
__device__ inline float sum_of_head(const Shape& s, float value) {
    for (int distance = s.lanes / 2; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(all_lanes, value, distance);
    }
    return value;
}

// Replaces x by (x - mean) * rstd and returns rstd. Columns after the end are 0.
template <int W>
__device__ float standardize(const Shape& s, float (&x)[columns]) {
    const auto n = static_cast<float>(s.width);
    float mean = 0.0F;
    if (s.centred) {
#pragma unroll
        for (int k = 0; k < columns; ++k) mean += x[k];
        mean = sum_of_head(s, mean) / n;
    }
    float square = 0.0F;
#pragma unroll
    for (int k = 0; k < columns; ++k) {
        x[k] = column_of<W>(s, k) < s.width ? x[k] - mean : 0.0F;
        square += x[k] * x[k];
    }
    const float rstd = 1.0F / sqrtf(sum_of_head(s, square) / n + s.eps);
#pragma unroll
    for (int k = 0; k < columns; ++k) x[k] *= rstd;
    return rstd;
}

// Some groups of a warp may have a query head, others a key head or no head. All groups take part
// in the shuffles of sum_of_head().
template <typename T, int W>
__global__ void __launch_bounds__(threads)
    forward(const T* x, T* y, Parameters<T> query, Parameters<T> key, Shape s) {
    const i64 item = s.group();
    const int width = item < s.tokens * s.heads ? s.width : 0;
    const int head = static_cast<int>(item % s.heads);
    float row[columns];
    float xhat[columns];
    read_row<W>(x + item * s.width, s, width, row);
#pragma unroll
    for (int k = 0; k < columns; ++k) xhat[k] = row[k];
    standardize<W>(s, xhat);
    if (head < s.normed) {
        const Parameters<T> p = head < s.queries ? query : key;
        float factor[columns];
        float bias[columns] = {};
        read_row<W>(p.weight, s, s.width, factor);
        if (p.bias) read_row<W>(p.bias, s, s.width, bias);
#pragma unroll
        for (int k = 0; k < columns; ++k) row[k] = xhat[k] * (factor[k] + s.offset) + bias[k];
    }
    write_row<W>(y + item * s.width, s, width, row);
}

template <typename T>
struct Backward {
    const T* dy;
    const T* x;
    T* dx;
    float* parts;   // [blocks, 4, D]: weight and bias of the query, weight and bias of the key
    i64 per_block;  // tokens
    Shape shape;
    __device__ i64 first_token() const { return blockIdx.x * per_block; }
    __device__ int tokens() const {
        return static_cast<int>(min(per_block, shape.tokens - first_token()));
    }
};

// Computes dx of the heads [first, end) of the block's tokens, and writes the gradients of weight
// and bias, summed over these heads, to shared[2][D]. The warps add to `shared` in sequence.
template <int W, typename T>
__device__ void backward_heads(const Backward<T>& a, const T* weights, int first, int end,
                               float (*shared)[widest]) {
    const Shape& s = a.shape;
    const int n_heads = end - first;
    const int n_items = a.tokens() * n_heads;
    const auto n = static_cast<float>(s.width);
    float weight[columns];
    float dweight[columns] = {};
    float dbias[columns] = {};
    read_row<W>(weights, s, s.width, weight);
    // All groups of a warp run the same number of iterations, because they take part in the same
    // shuffles.
    const int in_warp = s.group_of_block() % s.groups();
    for (int base = s.group_of_block() - in_warp; base < n_items; base += warps * s.groups()) {
        const int i = base + in_warp;
        const int width = i < n_items ? s.width : 0;
        const i64 at = ((a.first_token() + i / n_heads) * s.heads + first + i % n_heads) * s.width;
        float xhat[columns];
        float g[columns];
        read_row<W>(a.x + at, s, width, xhat);
        read_row<W>(a.dy + at, s, width, g);
        const float rstd = standardize<W>(s, xhat);
        float sums[2] = {};
#pragma unroll
        for (int k = 0; k < columns; ++k) {
            dweight[k] += width > 0 ? g[k] * xhat[k] : 0.0F;
            dbias[k] += g[k];
            g[k] *= weight[k] + s.offset;
            sums[0] += g[k];
            sums[1] += g[k] * xhat[k];
        }
        const float mean_g = s.centred ? sum_of_head(s, sums[0]) / n : 0.0F;
        const float mean_gx = sum_of_head(s, sums[1]) / n;
#pragma unroll
        for (int k = 0; k < columns; ++k) g[k] = rstd * (g[k] - mean_g - xhat[k] * mean_gx);
        write_row<W>(a.dx + at, s, width, g);
    }
    for (int distance = s.lanes; distance < warp_size; distance *= 2) {
#pragma unroll
        for (int k = 0; k < columns; ++k) {
            dweight[k] += __shfl_xor_sync(all_lanes, dweight[k], distance);
            dbias[k] += __shfl_xor_sync(all_lanes, dbias[k], distance);
        }
    }
    for (int turn = 0; turn < warps; ++turn) {
        __syncthreads();
        if (turn != static_cast<int>(threadIdx.x) / warp_size || in_warp > 0) continue;
#pragma unroll
        for (int k = 0; k < columns; ++k) {
            float* const sums = shared[0] + column_of<W>(s, k);
            sums[0] = turn == 0 ? dweight[k] : sums[0] + dweight[k];
            sums[widest] = turn == 0 ? dbias[k] : sums[widest] + dbias[k];
        }
    }
}

// Block b processes per_block tokens. dx may alias dy, because a group reads a head before it
// writes that head.
template <typename T, int W>
__global__ void __launch_bounds__(threads)
    backward(Backward<T> a, const T* query_weight, const T* key_weight) {
    __shared__ float shared[4][widest];
    const Shape& s = a.shape;
    backward_heads<W>(a, query_weight, 0, s.queries, shared);
    backward_heads<W>(a, key_weight, s.queries, s.normed, shared + 2);
    __syncthreads();
    float* const parts = a.parts + i64{blockIdx.x} * 4 * s.width;
    for (int i = static_cast<int>(threadIdx.x); i < 4 * s.width; i += threads) {
        parts[i] = shared[i / s.width][i % s.width];
    }
    if (a.dx == a.dy) return;
    const int rest = (s.heads - s.normed) * s.width;
    const int n = a.tokens() * rest;
    for (int i = static_cast<int>(threadIdx.x) * W; i < n; i += threads * W) {
        const i64 row = (a.first_token() + i / rest) * s.heads + s.normed;
        const i64 at = row * s.width + i % rest;
        float values[W];
        load<W>(a.dy + at, values);
        store<W>(a.dx + at, values);
    }
}

}  // namespace

namespace ops {

void head_norm_forward(device::Context& context, const HeadNormForward& a) {
    with_row_width(a.x.dtype, a.query_weight[0],
                   {a.x, a.y, a.query_weight, a.query_bias, a.key_weight, a.key_bias},
                   [&]<typename T, int W>(T, Width<W>) {
                       const Shape s = shape_of<W>(a);
                       launch(stream_of(context), forward<T, W>,
                              blocks_for(s.tokens * s.heads, threads / s.lanes), dim3(threads), 0,
                              pointer<T>(a.x), pointer<T>(a.y),
                              Parameters<T>{pointer<T>(a.query_weight), pointer<T>(a.query_bias)},
                              Parameters<T>{pointer<T>(a.key_weight), pointer<T>(a.key_bias)}, s);
                   });
}

void head_norm_backward(device::Context& context, const HeadNormBackward& a) {
    const i64 tokens = a.x[0] * a.x[1];
    const i64 width = a.query_weight[0];
    const i64 n_parts = cost::head_norm_parts(tokens);
    float* const parts =
        arena_of(context.workspace).reserve<float>(cost::head_norm_floats(tokens, width));
    const cudaStream_t stream = stream_of(context);
    with_row_width(a.x.dtype, width, {a.dy, a.x, a.dx, a.query_weight, a.key_weight},
                   [&]<typename T, int W>(T, Width<W>) {
                       const Backward<T> args{.dy = pointer<T>(a.dy),
                                              .x = pointer<T>(a.x),
                                              .dx = pointer<T>(a.dx),
                                              .parts = parts,
                                              .per_block = cost::head_norm_tokens(tokens),
                                              .shape = shape_of<W>(a)};
                       launch(stream, backward<T, W>, blocks_for(n_parts, 1), dim3(threads), 0,
                              args, pointer<T>(a.query_weight), pointer<T>(a.key_weight));
                   });
    add_parts(stream, {parts, n_parts, 4 * width, 4 * width},
              {.to = {pointer<float>(a.dquery_weight), pointer<float>(a.dquery_bias),
                      pointer<float>(a.dkey_weight), pointer<float>(a.dkey_bias)},
               .width = width},
              a.accumulate);
}

}  // namespace ops
}  // namespace lm::cuda
