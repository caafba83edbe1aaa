// SPDX-License-Identifier: Apache-2.0
// Attention forward on tensor cores: FlashAttention-2 (Dao, 2023, "FlashAttention-2: Faster
// Attention with Better Parallelism and Work Partitioning", algorithm 1).
//
// Grid: (tiles of queries, heads, samples). A block has 4 warps and Plan::queries queries; each
// warp has 16 * m_tiles of these queries. A block loops over the visible keys in steps of
// Plan::keys. A warp has whole rows of scores, so the softmax of a row needs only the four lanes
// that share the row (section 3.3 of the paper). Shared memory: q [queries], k [keys], v [keys],
// each row `width` elements. The copy of the values overlaps q k^T; the copy of the next keys
// overlaps the softmax and p v.
#include "cuda/attention/attention_kernels.cuh"
#include "cuda/attention/attention_tiles.cuh"

namespace lm::cuda {
namespace {

constexpr int n_warps = 4;
constexpr int n_threads = n_warps * warp_size;

// Tile sizes by head width: a warp has 16 * m_tiles queries, a step has `keys` keys. These sizes
// are the largest ones whose accumulators fit into registers (bench/cuda.md).
template <int width, bool dropout>
struct Plan {
    static constexpr int m_tiles = width <= 64 || (width == 128 && !dropout) ? 2 : 1;
    static constexpr int keys = width == (dropout ? 128 : 64) ? 64 : 32;
    static constexpr int queries = n_warps * 16 * m_tiles;
    static constexpr size_t bytes = SharedTile<u16, width>::bytes(queries + 2 * keys);
};

// Online softmax of a lane's rows: the largest score so far, and the sum of the weights so far. The
// maximum is over the whole row. The sum is over the lane's own columns; only at the end are the
// sums of the row's four lanes added.
template <int m_tiles>
struct OnlineSoftmax {
    float most[m_tiles][2];
    float sum[m_tiles][2];

    __device__ OnlineSoftmax() {
#pragma unroll
        for (int m = 0; m < m_tiles; ++m) {
            most[m][0] = most[m][1] = -INFINITY;
            sum[m][0] = sum[m][1] = 0.0F;
        }
    }
};

// Replaces scores by weights 2^(scale_2 (score - most)) and updates `softmax`. When the maximum of
// a row grows, the sum and the output of the row so far are multiplied by 2^(scale_2 (old - new
// maximum)). A row whose keys so far are all masked has the maximum -inf. Its sum stays 0. 0 is
// subtracted from its scores instead of the maximum, because -inf - (-inf) would be NaN.
template <int m_tiles, int n_tiles, int out_tiles>
__device__ void weigh(Sums<m_tiles, n_tiles>& scores, OnlineSoftmax<m_tiles>& softmax,
                      Sums<m_tiles, out_tiles>& out, float scale_2) {
    constexpr float none = -INFINITY;
#pragma unroll
    for (int m = 0; m < m_tiles; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float most = softmax.most[m][half];
#pragma unroll
            for (int n = 0; n < n_tiles; ++n) {
                most = fmaxf(most, fmaxf(scores[m][n][2 * half], scores[m][n][2 * half + 1]));
            }
            most = fmaxf(most, __shfl_xor_sync(all_lanes, most, 1));
            most = fmaxf(most, __shfl_xor_sync(all_lanes, most, 2));
            const float rescale =
                most == none ? 1.0F : exp2_approximate((softmax.most[m][half] - most) * scale_2);
            softmax.most[m][half] = most;
            const float offset = most == none ? 0.0F : most * scale_2;
            float sum = softmax.sum[m][half] * rescale;
#pragma unroll
            for (int n = 0; n < n_tiles; ++n) {
#pragma unroll
                for (int i = 2 * half; i < 2 * half + 2; ++i) {
                    scores[m][n][i] = exp2_approximate(fmaf(scores[m][n][i], scale_2, -offset));
                    sum += scores[m][n][i];
                }
            }
            softmax.sum[m][half] = sum;
#pragma unroll
            for (int n = 0; n < out_tiles; ++n) {
                out[m][n][2 * half] *= rescale;
                out[m][n][2 * half + 1] *= rescale;
            }
        }
    }
}

// Adds the ALiBi bias. With `mask`, sets scores of keys that the query does not see to -inf.
// `query` and `key` are the query and the key of the lane's first element.
template <typename T, int m_tiles, int n_tiles>
__device__ void bias_and_mask(Sums<m_tiles, n_tiles>& scores, const AttentionHead<T>& head,
                              const int (&starts)[m_tiles][2], int query, int key, bool mask) {
    if (head.slope != 0.0F) {
        for_each(scores, [&](float& score, int m, int n, int i) {
            const int distance = key - query + 8 * n + i % 2 - 16 * m - i / 2 * 8;
            score = fmaf(head.slope, static_cast<float>(distance), score);
        });
    }
    if (!mask) return;
    for_each(scores, [&](float& score, int m, int n, int i) {
        const int at_query = query + 16 * m + i / 2 * 8;
        const int at_key = key + 8 * n + i % 2;
        if (at_key > at_query || at_key < starts[m][i / 2]) score = -INFINITY;
    });
}

// Sets starts[m][half] to the doc_start of the lane's rows, 0 without documents. `query` is the
// lane's first row.
template <typename T, int m_tiles>
__device__ void load_starts(int (&starts)[m_tiles][2], const AttentionHead<T>& head, int query,
                            int length) {
#pragma unroll
    for (int m = 0; m < m_tiles; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = query + 16 * m + 8 * half;
            starts[m][half] = head.starts && row < length ? head.starts[row] : 0;
        }
    }
}

// Writes the lse of the rows, and sets the factors of the output: the normalization of the softmax
// and the dropout scale. `query` is the lane's first row.
template <typename T, int m_tiles>
__device__ void finish_softmax(float (&factors)[m_tiles][2], const OnlineSoftmax<m_tiles>& softmax,
                               const AttentionInput& input, const AttentionHead<T>& head, int query,
                               float* lse) {
    const int lane = static_cast<int>(threadIdx.x) % warp_size;
#pragma unroll
    for (int m = 0; m < m_tiles; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float sum = softmax.sum[m][half];
            sum += __shfl_xor_sync(all_lanes, sum, 1);
            sum += __shfl_xor_sync(all_lanes, sum, 2);
            factors[m][half] = input.dropout.scale / sum;
            const int row = query + 16 * m + 8 * half;
            if (lane % 4 == 0 && row < input.length) {
                lse[head.row_offset(input) + row] = softmax.most[m][half] * input.scale + logf(sum);
            }
        }
    }
}

template <typename T, int width, bool dropout>
__global__ __launch_bounds__(n_threads) void attention_forward_kernel(AttentionInput input, T* out,
                                                                      float* lse) {
    using P = Plan<width, dropout>;
    constexpr int m_tiles = P::m_tiles;
    constexpr int n_tiles = P::keys / 8;
    const AttentionHead<T> head(input, static_cast<int>(blockIdx.z), static_cast<int>(blockIdx.y));
    // The tiles with the most keys come first, so that the last blocks to start are the shortest.
    const int first = static_cast<int>(gridDim.x - 1 - blockIdx.x) * P::queries;
    const int lane = static_cast<int>(threadIdx.x) % warp_size;
    // First row of the warp in the tile.
    const int row = static_cast<int>(threadIdx.x) / warp_size * 16 * m_tiles;
    const int lane_query = first + row + lane / 4;

    const SharedTile<T, width> q{dynamic_shared<T>()};
    const SharedTile<T, width> k{q.data + P::queries * q.stride};
    const SharedTile<T, width> v{k.data + P::keys * k.stride};
    const Rows<const T> q_rows = rows_of(input, head.q, input.qkv_stride());
    const Rows<const T> k_rows = rows_of(input, head.k, input.qkv_stride());
    const Rows<const T> v_rows = rows_of(input, head.v, input.qkv_stride());

    const int begin = first_key_of(head.starts, first) / P::keys * P::keys;
    const int end = min(first + P::queries, input.length);
    int starts[m_tiles][2];
    load_starts(starts, head, lane_query, input.length);
    // The largest doc_start of the warp's queries. A step needs no mask if all of its keys are at
    // or after this doc_start and not after the warp's first query.
    const int last_start =
        first_key_of(head.starts, min(first + row + 16 * m_tiles, input.length) - 1);
    OnlineSoftmax<m_tiles> softmax;
    Sums<m_tiles, width / 8> result;
    clear(result);

    load_tile<P::queries, n_threads>(q, q_rows, first);
    load_tile<P::keys, n_threads>(k, k_rows, begin);
    commit_copies();
    for (int key = begin; key < end; key += P::keys) {
        wait_for_copies<0>();
        __syncthreads();  // the keys have arrived; no warp reads the previous values any more
        load_tile<P::keys, n_threads>(v, v_rows, key);
        commit_copies();
        Sums<m_tiles, n_tiles> scores;
        clear(scores);
        add_rows_by_rows(scores, q, row, k);
        wait_for_copies<0>();
        __syncthreads();  // the values have arrived; no warp reads the keys any more
        if (key + P::keys < end) load_tile<P::keys, n_threads>(k, k_rows, key + P::keys);
        commit_copies();

        const bool mask = last_start > key || key + P::keys > first + row + 1;
        bias_and_mask(scores, head, starts, lane_query, key + lane % 4 * 2, mask);
        weigh(scores, softmax, result, head.scale_2);
        // Dropout comes after weigh() has added the weights to the softmax's sum, because dropout
        // applies to normalized probabilities.
        if constexpr (dropout) {
            const KeptBits<m_tiles, n_tiles, false> bits(input, head, first + row, key);
            for_each(scores, [&](float& weight, int m, int n, int i) {
                if (!bits.kept(m, n, i)) weight = 0.0F;
            });
        }
        Weights<m_tiles, n_tiles / 2> weights;
        round_to_weights<T>(weights, scores);
        add_weighted_rows(result, weights, v);
    }
    wait_for_copies<0>();

    float factors[m_tiles][2];
    finish_softmax(factors, softmax, input, head, lane_query, lse);
    // The warp may overwrite its own rows of q, because no other warp reads them.
    store_sums(result, factors, q, row,
               rows_of(input, out + head.out_offset(input), input.out_stride()), first);
}

template <typename T, int width, bool dropout>
void run(cudaStream_t stream, const AttentionInput& input, int batch, T* out, float* lse) {
    using P = Plan<width, dropout>;
    const dim3 grid(static_cast<unsigned>(ceil_div(input.length, P::queries)),
                    static_cast<unsigned>(input.n_heads), static_cast<unsigned>(batch));
    launch(stream, attention_forward_kernel<T, width, dropout>, grid, dim3(n_threads), P::bytes,
           input, out, lse);
}

}  // namespace

template <typename T>
void flash_attention_forward(cudaStream_t stream, const AttentionInput& input, int batch, T* out,
                             float* lse) {
    with_head_width(input.width, [&]<int width>(HeadWidth<width>) {
        if (input.dropout.threshold != 0)
            return run<T, width, true>(stream, input, batch, out, lse);
        run<T, width, false>(stream, input, batch, out, lse);
    });
}

template void flash_attention_forward(cudaStream_t, const AttentionInput&, int, bf16*, float*);
template void flash_attention_forward(cudaStream_t, const AttentionInput&, int, fp16*, float*);

}  // namespace lm::cuda
