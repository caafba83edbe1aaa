// SPDX-License-Identifier: Apache-2.0
// Least significant digit radix sort (Knuth, TAOCP vol. 3, 5.2.5), 8 bits a pass, over tiles of
// `tile` rows, one block each. A pass has three kernels: count_kernel counts the digits of every
// tile; places_kernel turns the counts into the position of each (digit, tile) by prefix sums;
// move_kernel moves the rows. Every pass is stable, so the passes together sort. Only the counts
// use atomics, on integers, so that the result does not depend on their order.
#include "cuda/kernels/sort.cuh"

#include <bit>

#include "cost/cuda_scratch.hpp"
#include "cuda/kernels/block_reduce.cuh"
#include "cuda/kernels/kernel_launch.cuh"

namespace lm::cuda {
namespace {

constexpr int threads = 256;
constexpr int digits = 256;
constexpr int digit_bits = 8;
constexpr int n_warps = threads / warp_size;
constexpr int tile = static_cast<int>(cost::cuda_sort_tile);
static_assert(threads == digits && tile % threads == 0);

// rows[i] = index[i] - start, or n_table_rows when the table does not have that row; source[i] = i.
__global__ void rows_kernel(const i32* index, i64 n, i64 start, i64 n_table_rows, i32* rows,
                            i32* source) {
    const i64 i = static_cast<i64>(blockIdx.x) * threads + threadIdx.x;
    if (i >= n) return;
    const i64 row = index[i] - start;
    rows[i] = static_cast<i32>(row >= 0 && row < n_table_rows ? row : n_table_rows);
    source[i] = static_cast<i32>(i);
}

__device__ inline int digit_of(i32 row, int shift) {
    return row >> shift & (digits - 1);
}

// counts[digit][tile] = the number of rows of the tile blockIdx.x with that digit.
__global__ void __launch_bounds__(threads)
    count_kernel(const i32* rows, i64 n, int shift, i32* counts) {
    __shared__ i32 count[digits];
    count[threadIdx.x] = 0;
    __syncthreads();
    const i64 begin = static_cast<i64>(blockIdx.x) * tile;
    for (i64 i = begin + threadIdx.x; i < min(n, begin + tile); i += threads) {
        atomicAdd(&count[digit_of(rows[i], shift)], 1);
    }
    __syncthreads();
    counts[static_cast<i64>(threadIdx.x) * gridDim.x + blockIdx.x] = count[threadIdx.x];
}

// The exclusive prefix sum of a block: the sum of `own` over the threads before this one, and over
// all threads. All threads must call sum_before(), and need a barrier between two calls, because
// warp_sums is reused. Hillis-Steele scan within a warp, then a sum over the warps.
struct SumBefore {
    i32 before;
    i32 total;
};
__device__ SumBefore sum_before(i32 own) {
    __shared__ i32 warp_sums[n_warps];
    const int lane = static_cast<int>(threadIdx.x) % warp_size;
    const int warp = static_cast<int>(threadIdx.x) / warp_size;
    i32 sum = own;  // sum over the warp's lanes up to this one
    for (int distance = 1; distance < warp_size; distance *= 2) {
        const i32 left = __shfl_up_sync(all_lanes, sum, static_cast<unsigned>(distance));
        if (lane >= distance) sum += left;
    }
    if (lane == warp_size - 1) warp_sums[warp] = sum;
    __syncthreads();
    SumBefore result{sum - own, 0};
    for (int w = 0; w < n_warps; ++w) {
        if (w < warp) result.before += warp_sums[w];
        result.total += warp_sums[w];
    }
    return result;
}

// Block d replaces counts[d][tile] by the sum of counts[d] over the previous tiles, and writes the
// sum over all tiles to totals[d].
__global__ void __launch_bounds__(threads) places_kernel(i32* counts, i64 n_tiles, i32* totals) {
    i32* const own = counts + blockIdx.x * n_tiles;
    i32 before = 0;
    for (i64 begin = 0; begin < n_tiles; begin += threads) {
        const i64 i = begin + threadIdx.x;
        const SumBefore sum = sum_before(i < n_tiles ? own[i] : 0);
        if (i < n_tiles) own[i] = before + sum.before;
        before += sum.total;
        __syncthreads();
    }
    if (threadIdx.x == 0) totals[blockIdx.x] = before;
}

// Moves the rows of tile blockIdx.x, `threads` rows a round. Position of a row =
//   rows with smaller digits (prefix sum of totals) + rows of its digit in previous tiles (places)
//   + those in previous rounds of this tile                     -> next[digit]
//   + those in previous warps of this round                     -> warp_count[warp][digit]
//   + those in lower lanes of its warp                          -> rank
// so that equal digits keep their order. Positions are distinct: no two threads write the same
// element. Lanes beyond n have the digit `digits`, which matches no row.
__global__ void __launch_bounds__(threads)
    move_kernel(const i32* rows, const i32* source, i64 n, int shift, const i32* places,
                const i32* totals, i32* rows_out, i32* source_out) {
    __shared__ i32 next[digits];  // position of the next row of each digit
    __shared__ i32 warp_count[n_warps][digits];
    const int lane = static_cast<int>(threadIdx.x) % warp_size;
    const int warp = static_cast<int>(threadIdx.x) / warp_size;
    next[threadIdx.x] = sum_before(totals[threadIdx.x]).before +
                        places[static_cast<i64>(threadIdx.x) * gridDim.x + blockIdx.x];
    const i64 begin = static_cast<i64>(blockIdx.x) * tile;
    for (i64 round = begin; round < min(n, begin + tile); round += threads) {
        for (int w = 0; w < n_warps; ++w) warp_count[w][threadIdx.x] = 0;
        __syncthreads();
        const i64 i = round + threadIdx.x;
        const bool here = i < n;
        const i32 row = here ? rows[i] : 0;
        const int digit = here ? digit_of(row, shift) : digits;
        const unsigned equal = __match_any_sync(all_lanes, digit);  // lanes with this digit
        const int rank = __popc(equal & ((1U << lane) - 1));
        if (here && rank == 0) warp_count[warp][digit] = __popc(equal);
        __syncthreads();
        // Thread d turns the counts of digit d into prefix sums over the warps; total is their sum.
        i32 total = 0;
        for (int w = 0; w < n_warps; ++w) {
            const i32 count = warp_count[w][threadIdx.x];
            warp_count[w][threadIdx.x] = total;
            total += count;
        }
        __syncthreads();
        if (here) {
            const i32 place = next[digit] + warp_count[warp][digit] + rank;
            rows_out[place] = row;
            source_out[place] = source[i];
        }
        __syncthreads();
        next[threadIdx.x] += total;
    }
}

}  // namespace

Sorted sort_rows(cudaStream_t stream, device::WorkspaceArena& scratch, const i32* index, i64 n,
                 i64 start, i64 n_table_rows) {
    i32* rows = scratch.reserve<i32>(n);
    i32* source = scratch.reserve<i32>(n);
    i32* other_rows = scratch.reserve<i32>(n);
    i32* other_source = scratch.reserve<i32>(n);
    const i64 n_tiles = ceil_div(n, i64{tile});
    i32* const counts = scratch.reserve<i32>(n_tiles * digits);
    i32* const totals = scratch.reserve<i32>(digits);
    const dim3 tiles(static_cast<unsigned>(n_tiles));
    launch(stream, rows_kernel, blocks_for(n, threads), dim3(threads), 0, index, n, start,
           n_table_rows, rows, source);
    const int bits = std::bit_width(static_cast<u64>(n_table_rows));
    for (int shift = 0; shift < bits; shift += digit_bits) {
        launch(stream, count_kernel, tiles, dim3(threads), 0, rows, n, shift, counts);
        launch(stream, places_kernel, dim3(digits), dim3(threads), 0, counts, n_tiles, totals);
        launch(stream, move_kernel, tiles, dim3(threads), 0, rows, source, n, shift, counts, totals,
               other_rows, other_source);
        std::swap(rows, other_rows);
        std::swap(source, other_source);
    }
    return {rows, source};
}

}  // namespace lm::cuda
