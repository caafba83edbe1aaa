// SPDX-License-Identifier: Apache-2.0
// Tiles of 16-bit elements in shared memory, and the two matrix products that a warp of attention
// computes on tensor cores (cuda/kernels/mma.cuh). One product is a b^T, where a and b are tiles.
// The other is w b, where w are weights in registers and b is a tile. A "piece" is 8 elements (16
// bytes) of a row. "Weights" are probabilities or gradients of scores, the left operand of a
// product.
#pragma once

#include "cuda/attention/attention.cuh"

namespace lm::cuda {

// Accumulators of a warp: m_tiles x n_tiles blocks of 16 x 8, in the layout of mma.cuh's d.
template <int m_tiles, int n_tiles>
using Sums = float[m_tiles][n_tiles][4];

// Left operand of a warp: m_tiles x k_steps blocks of 16 x 16, in the layout of mma.cuh's a.
template <int m_tiles, int k_steps>
using Weights = u32[m_tiles][k_steps][4];

// Rows of `width` elements in shared memory. Piece c of row r is stored at position c ^ (r % 8) of
// its row (an XOR swizzle). ldmatrix reads piece c of eight consecutive rows at a time. The swizzle
// puts these eight pieces into different groups of four banks, which avoids bank conflicts. The
// stride is a multiple of 64 elements (128 bytes, all 32 banks).
template <typename T, int width>
struct SharedTile {
    static constexpr int stride = (width + 63) / 64 * 64;
    static constexpr int pieces = width / 8;
    static constexpr size_t bytes(int rows) {
        return sizeof(T) * stride * static_cast<size_t>(rows);
    }
    __device__ static int offset(int row, int c) { return row * stride + (c ^ (row & 7)) * 8; }
    __device__ T* piece(int row, int c) const { return data + offset(row, c); }
    // Returns piece c + dc of row r + dr, where `offset` is offset(r, c). dr must be a multiple of
    // 8, dc even, and c < 2: then (c + dc) ^ (r % 8) = (c ^ (r % 8)) ^ dc. With constant dr and dc
    // this is one XOR; offset() takes several instructions or a register for each piece.
    __device__ T* piece_from(int offset, int dr, int dc) const {
        return data + (offset ^ (dc & 7) * 8) + (dc >> 3) * 64 + dr * stride;
    }
    T* data;
};

// A matrix in global memory: row r at base + r * stride. Rows from `length` and columns from
// `width` on do not exist and must not be accessed.
template <typename T>
struct Rows {
    T* base;
    int stride;
    int length;
    int width;
    bool vectors;
    // Returns how many elements of piece c of `row` exist: 0 to 8.
    __device__ int existing(int row, int c) const {
        return row < length ? max(0, min(8, width - c * 8)) : 0;
    }
    __device__ T* at(int row, int c) const { return base + i64{row} * stride + c * 8; }
};

// Returns the rows of one head in qkv, out or dout. `base` is the address of the head's row of
// token 0.
template <typename T>
__device__ Rows<T> rows_of(const AttentionInput& input, T* base, int stride) {
    return {base, stride, input.length, input.width, input.vectors};
}

// Starts the asynchronous copy of rows [first, first + n_rows) to the tile; elements that do not
// exist become 0. All `threads` threads of the block must call it; a thread copies the same piece
// column of every rows_at_once-th row. The caller commits and waits (mma.cuh).
template <int n_rows, int threads, typename T, int width>
__device__ void load_tile(const SharedTile<T, width>& tile, const Rows<const T>& rows, int first) {
    constexpr int pieces = SharedTile<T, width>::pieces;
    constexpr int rows_at_once = threads / pieces;
    static_assert(threads % pieces == 0 && n_rows % rows_at_once == 0);
    const int c = static_cast<int>(threadIdx.x) % pieces;
    int row = static_cast<int>(threadIdx.x) / pieces;
    const T* from = rows.at(first + row, c);
    const i64 step = i64{rows_at_once} * rows.stride;
#pragma unroll
    for (int i = 0; i < n_rows / rows_at_once; ++i, row += rows_at_once, from += step) {
        const int n = rows.existing(first + row, c);
        if (rows.vectors) {
            copy_async_16(tile.piece(row, c), from, n * static_cast<int>(sizeof(T)));
            continue;
        }
        for (int e = 0; e < 8; ++e) tile.piece(row, c)[e] = e < n ? from[e] : from_float<T>(0.0F);
    }
}

// lse, delta and doc_start of the queries of a tile, in shared memory: [queries] each.
struct QueryNumbers {
    float* lse;
    float* delta;
    int* start;
};

template <int queries>
__device__ QueryNumbers numbers_in(void* shared) {
    float* const base = static_cast<float*>(shared);
    return {base, base + queries, reinterpret_cast<int*>(base + 2 * queries)};
}

// Starts the asynchronous copy of the numbers of the queries from `query` on. All `threads` threads
// of the block must call it. The numbers of queries that do not exist become 0.
template <int queries, int threads>
__device__ void load_numbers(const QueryNumbers& numbers, const float* lse, const float* delta,
                             const i32* starts, int query, int length) {
    for (int i = static_cast<int>(threadIdx.x); i < queries; i += threads) {
        const int bytes = query + i < length ? 4 : 0;
        copy_async_4(numbers.lse + i, lse + query + i, bytes);
        copy_async_4(numbers.delta + i, delta + query + i, bytes);
        if (starts) copy_async_4(numbers.start + i, starts + query + i, bytes);
    }
}

// ---- products -----------------------------------------------------------------------------------

// Adds a b^T to the accumulators: sums[m][n] += rows row + 16 * m + (0..15) of a times rows 8 * n +
// (0..7) of b. Both tiles are stored with the summed dimension along the row, as mma's row.col form
// expects. One ldmatrix loads a 16 x 16 block of a, or two 8-row blocks of b with their 16 columns.
template <typename T, int width, int m_tiles, int n_tiles>
__device__ void add_rows_by_rows(Sums<m_tiles, n_tiles>& sums, const SharedTile<T, width>& a,
                                 int row, const SharedTile<T, width>& b) {
    static_assert(n_tiles % 2 == 0);
    const int lane = static_cast<int>(threadIdx.x) % warp_size;
    const int a_lane = a.offset(row + lane % 16, lane / 16);
    const int b_lane = b.offset(lane % 8 + lane / 16 * 8, lane / 8 % 2);
#pragma unroll
    for (int k = 0; k < width / 16; ++k) {
        u32 left[m_tiles][4];
#pragma unroll
        for (int m = 0; m < m_tiles; ++m) {
            load_matrices(left[m], a.piece_from(a_lane, 16 * m, 2 * k));
        }
#pragma unroll
        for (int n = 0; n < n_tiles; n += 2) {
            u32 right[4];
            load_matrices(right, b.piece_from(b_lane, 8 * n, 2 * k));
#pragma unroll
            for (int m = 0; m < m_tiles; ++m) {
                multiply_add(T{}, sums[m][n], left[m], right[0], right[1]);
                multiply_add(T{}, sums[m][n + 1], left[m], right[2], right[3]);
            }
        }
    }
}

// Adds the product of `weights` and b to the accumulators: sums[m][n] += weights[m] times columns 8
// (first + n) + (0..7) of b. The summed dimension is b's rows, so b is loaded with ldmatrix .trans.
template <typename T, int width, int m_tiles, int k_steps, int n_tiles>
__device__ void add_weighted_rows(Sums<m_tiles, n_tiles>& sums,
                                  const Weights<m_tiles, k_steps>& weights,
                                  const SharedTile<T, width>& b, int first = 0) {
    static_assert(n_tiles % 2 == 0);
    const int lane = static_cast<int>(threadIdx.x) % warp_size;
    const int b_lane = b.offset(lane % 16, lane / 16);
#pragma unroll
    for (int k = 0; k < k_steps; ++k) {
#pragma unroll
        for (int n = 0; n < n_tiles; n += 2) {
            u32 right[4];
            load_matrices_transposed(right, b.piece_from(b_lane, 16 * k, first + n));
#pragma unroll
            for (int m = 0; m < m_tiles; ++m) {
                multiply_add(T{}, sums[m][n], weights[m][k], right[0], right[1]);
                multiply_add(T{}, sums[m][n + 1], weights[m][k], right[2], right[3]);
            }
        }
    }
}

// Rounds accumulators to T and returns them as the left operand of a product. Two adjacent 16 x 8
// blocks of d have the register layout of one 16 x 16 block of a (mma.cuh), so that no data moves
// between lanes.
template <typename T, int m_tiles, int n_tiles>
__device__ void round_to_weights(Weights<m_tiles, n_tiles / 2>& weights,
                                 const Sums<m_tiles, n_tiles>& sums) {
#pragma unroll
    for (int m = 0; m < m_tiles; ++m) {
#pragma unroll
        for (int n = 0; n < n_tiles; ++n) {
            weights[m][n / 2][n % 2 * 2] = pack(T{}, sums[m][n][0], sums[m][n][1]);
            weights[m][n / 2][n % 2 * 2 + 1] = pack(T{}, sums[m][n][2], sums[m][n][3]);
        }
    }
}

template <int m_tiles, int n_tiles>
__device__ void clear(Sums<m_tiles, n_tiles>& sums) {
#pragma unroll
    for (int m = 0; m < m_tiles; ++m) {
#pragma unroll
        for (int n = 0; n < n_tiles; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) sums[m][n][i] = 0.0F;
        }
    }
}

// Calls body(element, m, n, i) for every accumulator of a lane. The element's row is 16 * m + g + 8
// * (i / 2), its column is 8 * n + 2 * q + i % 2, with g = lane / 4 and q = lane % 4.
template <int m_tiles, int n_tiles, typename Body>
__device__ void for_each(Sums<m_tiles, n_tiles>& sums, Body&& body) {
#pragma unroll
    for (int m = 0; m < m_tiles; ++m) {
#pragma unroll
        for (int n = 0; n < n_tiles; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) body(sums[m][n][i], m, n, i);
        }
    }
}

// Multiplies a warp's accumulators by factors[m][half] of their rows, and writes them to rows
// first + row + (0..16 * m_tiles - 1) of `rows`, columns from 8 * first_piece on. The warp first
// writes them to rows row + (0..16 * m_tiles - 1) of `tile`, then copies whole pieces to global
// memory. No other warp may still use these rows of the tile. __syncwarp() suffices, because a warp
// reads back only its own rows.
template <typename T, int width, int m_tiles, int n_tiles>
__device__ void store_sums(const Sums<m_tiles, n_tiles>& sums, const float (&factors)[m_tiles][2],
                           const SharedTile<T, width>& tile, int row, const Rows<T>& rows,
                           int first, int first_piece = 0) {
    const int lane = static_cast<int>(threadIdx.x) % warp_size;
    __syncwarp();
#pragma unroll
    for (int m = 0; m < m_tiles; ++m) {
#pragma unroll
        for (int n = 0; n < n_tiles; ++n) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float factor = factors[m][half];
                T* const piece = tile.piece(row + 16 * m + 8 * half + lane / 4, n);
                reinterpret_cast<u32*>(piece)[lane % 4] =
                    pack(T{}, sums[m][n][2 * half] * factor, sums[m][n][2 * half + 1] * factor);
            }
        }
    }
    __syncwarp();
    for (int i = lane; i < 16 * m_tiles * n_tiles; i += warp_size) {
        const int r = row + i / n_tiles;
        const int c = i % n_tiles;
        const int n = rows.existing(first + r, first_piece + c);
        if (n == 0) continue;
        T* const to = rows.at(first + r, first_piece + c);
        const T* const from = tile.piece(r, c);
        if (rows.vectors) {
            store_pack(to, load_pack(from));
        } else {
            for (int e = 0; e < n; ++e) to[e] = from[e];
        }
    }
}

// ---- dropout ------------------------------------------------------------------------------------

// The dropout mask of a warp's 16 * m_tiles rows x 8 * n_tiles columns of weights. A Philox block
// covers eight adjacent keys of one query: part of a row, or of a column when `rows_are_keys`. Each
// lane computes m_tiles * n_tiles / 2 blocks, and the lanes exchange the bits by shuffles. So each
// block is computed once; only blocks that are not aligned to the tile are computed twice
// (kept_of_eight()).
template <int m_tiles, int n_tiles, bool rows_are_keys>
class KeptBits {
  public:
    static_assert(n_tiles % 2 == 0 && n_tiles <= 8);

    template <typename T>
    __device__ KeptBits(const AttentionInput& input, const AttentionHead<T>& head, int query,
                        int key) {
#pragma unroll
        for (int m = 0; m < m_tiles; ++m) {
            compute(input, head, query + (rows_are_keys ? 0 : 16 * m),
                    key + (rows_are_keys ? 16 * m : 0), bits_[m]);
        }
    }

    // Returns true when the element (m, n, i) of for_each() is kept.
    __device__ bool kept(int m, int n, int i) const {
        const int lane = static_cast<int>(threadIdx.x) % warp_size;
        const int bit = rows_are_keys ? lane / 4 : lane % 4 * 2 + i % 2;
        const u32 bits = bits_[m][i / 2][rows_are_keys ? 2 * (n % 2) + i % 2 : n % 2];
        return (bits >> (8 * (n / 2) + bit) & 1U) != 0;
    }

  private:
    static constexpr int per_half = rows_are_keys ? 4 : 2;

    template <typename T>
    __device__ static void compute(const AttentionInput& input, const AttentionHead<T>& head,
                                   int query, int key, u32 (&bits)[2][per_half]) {
        const int lane = static_cast<int>(threadIdx.x) % warp_size;
        u32 own = 0;  // byte i: this lane's block i
#pragma unroll
        for (int i = 0; i < n_tiles / 2; ++i) {
            const int along = rows_are_keys ? 16 * i + lane % 16 : lane % 16;
            const int eight = rows_are_keys ? lane / 16 : 2 * i + lane / 16;
            const u64 element = head.element(input, query + along, key + 8 * eight);
            own |= kept_of_eight(input.dropout, head.sample_id, element) << (8 * i);
        }
        // g = lane / 4, q = lane % 4, e = 0 or 1. When rows are queries, byte n / 2 of
        // bits[half][n % 2] has the columns of block n in row g + 8 half. When rows are keys, byte
        // n / 2 of bits[half][2 (n % 2) + e] has rows 8 half to 8 half + 7 of column 2 q + e of
        // block n.
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
            for (int j = 0; j < per_half; ++j) {
                const int from = rows_are_keys ? 16 * half + 8 * (j / 2) + lane % 4 * 2 + j % 2
                                               : 16 * j + 8 * half + lane / 4;
                bits[half][j] = __shfl_sync(all_lanes, own, from);
            }
        }
    }

    u32 bits_[m_tiles][2][per_half];
};

// The mask without dropout.
struct AllKept {
    template <typename T>
    __device__ AllKept(const AttentionInput&, const AttentionHead<T>&, int, int) {}
    __device__ bool kept(int, int, int) const { return true; }
};

}  // namespace lm::cuda
