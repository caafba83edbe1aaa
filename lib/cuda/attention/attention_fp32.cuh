// SPDX-License-Identifier: Apache-2.0
// Device code of attention in fp32: the algorithms of attention_forward.cu and
// attention_backward.cu with fused multiply-adds instead of tensor cores, which have no fp32. A
// block's 256 threads are a square of 16 x 16; thread (y, x) computes the scores of rows y + 16 i
// and columns x + 16 j of a tile. So the 16 threads of a row are half a warp, and a softmax needs
// no barrier.
#pragma once

#include "cuda/attention/attention_kernels.cuh"

namespace lm::cuda::fp32 {

constexpr int side = 16;
constexpr int n_threads = side * side;
constexpr int step = 32;  // rows of the tile that a block loads in an iteration
constexpr int step_pieces = step / side;

// Rows of floats in shared memory. 4 floats of padding put the same column of adjacent rows into
// different banks and keep rows aligned to 16 bytes.
template <int width>
struct FloatTile {
    static constexpr int stride = width + 4;
    static constexpr int floats(int rows) { return stride * rows; }
    __device__ float* row(int r) const { return data + r * stride; }
    float* data;
};
using ScoreTile = FloatTile<step>;

// A matrix in global memory: row r at base + r * stride, `length` rows of `width` columns.
struct FloatRows {
    const float* base;
    int stride;
    int length;
    int width;
    bool vectors;
};

// Starts the copy of rows [first, first + n_rows) to the tile; elements that do not exist become 0.
// All threads of the block must call it, and wait_for_tiles() before the tile is read.
template <int width>
__device__ void load_tile(const FloatTile<width>& tile, const FloatRows& rows, int first,
                          int n_rows) {
    constexpr int pieces = width / 4;
    for (int i = static_cast<int>(threadIdx.x); i < n_rows * pieces; i += n_threads) {
        const int row = i / pieces;
        const int column = i % pieces * 4;
        const int n = first + row < rows.length ? max(0, min(4, rows.width - column)) : 0;
        const float* const from = rows.base + i64{first + row} * rows.stride + column;
        float* const to = tile.row(row) + column;
        if (rows.vectors) {
            copy_async_16(to, from, n * 4);
        } else {
            for (int e = 0; e < 4; ++e) to[e] = e < n ? from[e] : 0.0F;
        }
    }
}

__device__ inline void wait_for_tiles() {
    commit_copies();
    wait_for_copies<0>();
    __syncthreads();
}

template <int m, int n>
__device__ void clear(float (&sums)[m][n]) {
#pragma unroll
    for (int i = 0; i < m; ++i) {
#pragma unroll
        for (int j = 0; j < n; ++j) sums[i][j] = 0.0F;
    }
}

// Adds a b^T to the accumulators: sums[i][j] += row y + 16 i of a times row x + 16 j of b.
template <int width, int m, int n>
__device__ void add_rows_by_rows(float (&sums)[m][n], const FloatTile<width>& a,
                                 const FloatTile<width>& b) {
    const int x = static_cast<int>(threadIdx.x) % side;
    const int y = static_cast<int>(threadIdx.x) / side;
#pragma unroll 4
    for (int d = 0; d < width; d += 4) {
        float4 left[m];
        float4 right[n];
#pragma unroll
        for (int i = 0; i < m; ++i) {
            left[i] = *reinterpret_cast<const float4*>(a.row(y + side * i) + d);
        }
#pragma unroll
        for (int j = 0; j < n; ++j) {
            right[j] = *reinterpret_cast<const float4*>(b.row(x + side * j) + d);
        }
#pragma unroll
        for (int i = 0; i < m; ++i) {
#pragma unroll
            for (int j = 0; j < n; ++j) {
                float sum = sums[i][j];
                sum = fmaf(left[i].x, right[j].x, sum);
                sum = fmaf(left[i].y, right[j].y, sum);
                sum = fmaf(left[i].z, right[j].z, sum);
                sums[i][j] = fmaf(left[i].w, right[j].w, sum);
            }
        }
    }
}

// Adds the product of `weights` and b to the accumulators: sums[i][4 c + e] += row y + 16 i of
// `weights` times column 64 c + 4 x + e of b, for e < 4. The half warp that reads a row of weights
// here wrote it in put_weights(), so that no block barrier is needed.
template <int width, int m, int n>
__device__ void add_weighted_rows(float (&sums)[m][n], const ScoreTile& weights,
                                  const FloatTile<width>& b) {
    static_assert(n == width / side);
    const int x = static_cast<int>(threadIdx.x) % side;
    const int y = static_cast<int>(threadIdx.x) / side;
#pragma unroll 4
    for (int k = 0; k < step; ++k) {
        float left[m];
#pragma unroll
        for (int i = 0; i < m; ++i) left[i] = weights.row(y + side * i)[k];
#pragma unroll
        for (int c = 0; c < n; c += 4) {
            const float4 right = *reinterpret_cast<const float4*>(b.row(k) + side * c + 4 * x);
#pragma unroll
            for (int i = 0; i < m; ++i) {
                sums[i][c] = fmaf(left[i], right.x, sums[i][c]);
                sums[i][c + 1] = fmaf(left[i], right.y, sums[i][c + 1]);
                sums[i][c + 2] = fmaf(left[i], right.z, sums[i][c + 2]);
                sums[i][c + 3] = fmaf(left[i], right.w, sums[i][c + 3]);
            }
        }
    }
}

// Writes each thread's weights to the rows and columns of its scores in `tile`.
template <int m>
__device__ void put_weights(const ScoreTile& tile, const float (&weights)[m][step_pieces]) {
    const int x = static_cast<int>(threadIdx.x) % side;
    const int y = static_cast<int>(threadIdx.x) / side;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < m; ++i) {
#pragma unroll
        for (int j = 0; j < step_pieces; ++j) tile.row(y + side * i)[x + side * j] = weights[i][j];
    }
    __syncwarp();
}

// Writes the accumulators of add_weighted_rows(), times factors of their rows, to rows
// first + y + 16 i at `base`.
template <int m, int n>
__device__ void store_sums(const float (&sums)[m][n], const float (&factors)[m], float* base,
                           int stride, const AttentionInput& input, int first) {
    const int x = static_cast<int>(threadIdx.x) % side;
    const int y = static_cast<int>(threadIdx.x) / side;
#pragma unroll
    for (int i = 0; i < m; ++i) {
        const int row = first + y + side * i;
        if (row >= input.length) continue;
#pragma unroll
        for (int c = 0; c < n; ++c) {
            const int column = c / 4 * 64 + 4 * x + c % 4;
            if (column < input.width) base[i64{row} * stride + column] = sums[i][c] * factors[i];
        }
    }
}

// Returns true when dropout keeps the weight of (query, key).
__device__ inline bool kept(const AttentionInput& input, const AttentionHead<float>& head,
                            int query, int key) {
    if (input.dropout.threshold == 0) return true;
    const u64 element = head.element(input, query, key);
    const DropoutBlock block = dropout_block(input.dropout.key, head.sample_id, element / 8);
    return block.number(static_cast<int>(element % 8)) >= input.dropout.threshold;
}

// Returns the score with the ALiBi bias.
__device__ inline float biased(const AttentionHead<float>& head, float score, int query, int key) {
    return fmaf(head.slope, static_cast<float>(key - query), score);
}

inline dim3 grid_of(const AttentionInput& input, int rows, int heads, int batch) {
    return dim3(static_cast<unsigned>(ceil_div(input.length, rows)), static_cast<unsigned>(heads),
                static_cast<unsigned>(batch));
}

}  // namespace lm::cuda::fp32
