// SPDX-License-Identifier: Apache-2.0
// Attention backward on tensor cores: FlashAttention-2 (Dao, 2023, algorithm 2) in two kernels.
// With P the softmax, M the dropout factors and delta = rowsum(dout * out):
//     dV = (P M)^T dout;  dS = P * (M * (dout V^T) - delta);  dQ = scale dS K;  dK = scale dS^T Q.
// A block of the keys kernel has a tile of keys and loops over the queries of all heads of the
// group (dK, dV). A block of the queries kernel has a tile of queries and loops over the keys (dQ).
// Each kernel recomputes P and dS: 7 products instead of the 5 of a single kernel. In return, every
// element has one writer. So the kernels need no atomics and no fp32 dQ in memory, and compute the
// same bits in every run. (Algorithm 2 adds to dQ atomically.) The workspace holds only delta.
//
// Both kernels compute P and dS in registers as accumulators and use them as the left operand of
// the next product (round_to_weights()). For that, the keys kernel computes the transposed scores K
// Q^T. A block has 4 warps; a warp has 16 * m_tiles rows of the block's tile. The loop has two
// stages in shared memory: the copies of step i + 1 overlap the products of step i.
#include <type_traits>

#include "cuda/attention/attention_kernels.cuh"
#include "cuda/attention/attention_tiles.cuh"

namespace lm::cuda {
namespace {

constexpr int n_warps = 4;
constexpr int n_threads = n_warps * warp_size;

// The elements of P M and of dS for one (query, key).
struct Gradient {
    float weight;  // P M: the weight after dropout
    float score;   // dS: the gradient of the score
};
// Returns the elements for one (query, key). `weight`: its element of P; `dweight`: its element of
// dout V^T.
__device__ inline Gradient gradient(float weight, float dweight, bool kept, float dropout_scale,
                                    float delta) {
    const float dropped = kept ? dropout_scale : 0.0F;
    return {weight * dropped, weight * fmaf(dweight, dropped, -delta)};
}

// Returns the softmax weight of a score to which no bias was added: exp(scale * score - lse).
template <typename T>
__device__ float weight_of(const AttentionHead<T>& head, float score, int query, int key,
                           float lse) {
    if (head.slope != 0.0F) score = fmaf(head.slope, static_cast<float>(key - query), score);
    return exp2_approximate(fmaf(score, head.scale_2, -lse * log2_e));
}

// Writes sums * factor to dqkv, as the gradient of a head's q, k or v: rows from `first` on,
// columns from 8 * first_piece on. `base` points to this q, k or v in qkv. The data passes through
// `tile` (store_sums()).
template <typename T, int width, int m_tiles, int n_tiles>
__device__ void store_gradient(const Sums<m_tiles, n_tiles>& sums, float factor,
                               const SharedTile<T, width>& tile, int row,
                               const AttentionInput& input, const T* base, T* dqkv, int first,
                               int first_piece = 0) {
    float factors[m_tiles][2];
#pragma unroll
    for (int m = 0; m < m_tiles; ++m) factors[m][0] = factors[m][1] = factor;
    T* const target = dqkv + (base - static_cast<const T*>(input.qkv));
    store_sums(sums, factors, tile, row, rows_of(input, target, input.qkv_stride()), first,
               first_piece);
}

// ---- dK and dV ----------------------------------------------------------------------------------

// Tile sizes of the keys kernel: a warp has 16 * m_tiles keys, a step has `queries` queries, and a
// block computes `columns` columns of dK and dV. For heads wider than 128 the accumulators of all
// columns do not fit into registers. So two blocks each compute half of the columns, and both
// compute the scores.
template <int width, bool dropout>
struct KeyPlan {
    static constexpr int m_tiles = 1;
    static constexpr int queries = width <= 64 ? 64 : width <= 128 && !dropout ? 32 : 16;
    static constexpr int columns = width <= 128 ? width : 128;
    static constexpr int keys = n_warps * 16 * m_tiles;
    // Shared memory: keys, values, two stages of queries and dout, two stages of QueryNumbers.
    static constexpr size_t tiles = SharedTile<u16, width>::bytes(2 * keys + 4 * queries);
    static constexpr size_t bytes = tiles + 2 * 3 * queries * sizeof(float);
};

// The shared memory of a block of the keys kernel. A stage holds one step's queries.
template <typename T, int width, bool dropout>
struct KeyMemory {
    using P = KeyPlan<width, dropout>;
    using Matrix = SharedTile<T, width>;
    T* base;

    __device__ Matrix keys() const { return {base}; }
    __device__ Matrix values() const { return {base + P::keys * Matrix::stride}; }
    __device__ Matrix queries(int stage) const {
        return {base + (2 * P::keys + stage * 2 * P::queries) * Matrix::stride};
    }
    __device__ Matrix douts(int stage) const {
        return {base + (2 * P::keys + (stage * 2 + 1) * P::queries) * Matrix::stride};
    }
    __device__ QueryNumbers numbers(int stage) const {
        auto* const first = reinterpret_cast<unsigned char*>(base) + P::tiles;
        return numbers_in<P::queries>(reinterpret_cast<float*>(first) + stage * 3 * P::queries);
    }
};

// Starts the copies of one head's queries, from `query` on, and of their dout, lse and delta.
template <typename T, int width, bool dropout>
__device__ void load_queries(const KeyMemory<T, width, dropout>& memory, int stage,
                             const AttentionInput& input, const AttentionHead<T>& head,
                             const T* dout, const float* lse, const float* delta, int query) {
    constexpr int queries = KeyPlan<width, dropout>::queries;
    load_tile<queries, n_threads>(memory.queries(stage), rows_of(input, head.q, input.qkv_stride()),
                                  query);
    load_tile<queries, n_threads>(memory.douts(stage),
                                  rows_of(input, dout + head.out_offset(input), input.out_stride()),
                                  query);
    const i64 offset = head.row_offset(input);
    load_numbers<queries, n_threads>(memory.numbers(stage), lse + offset, delta + offset,
                                     head.starts, query, input.length);
}

// Replaces K Q^T in `weights` by (P M)^T and V dout^T in `scores` by dS^T. `key` is the warp's
// first key, `query` the step's first query. With `mask`, the weight is 0 where the query does not
// exist or does not see the key.
template <typename T, int m_tiles, int n_tiles, typename Dropped>
__device__ void finish_transposed(Sums<m_tiles, n_tiles>& weights, Sums<m_tiles, n_tiles>& scores,
                                  const AttentionInput& input, const AttentionHead<T>& head,
                                  const QueryNumbers& numbers, int query, int key, bool mask,
                                  const Dropped& dropped) {
    const int lane = static_cast<int>(threadIdx.x) % warp_size;
    for_each(scores, [&](float& score, int m, int n, int i) {
        const int column = 8 * n + lane % 4 * 2 + i % 2;
        const int at_query = query + column;
        const int at_key = key + 16 * m + i / 2 * 8 + lane / 4;
        float weight = weight_of(head, weights[m][n][i], at_query, at_key, numbers.lse[column]);
        if (mask && (at_key > at_query || at_query >= input.length ||
                     (head.starts && at_key < numbers.start[column]))) {
            weight = 0.0F;
        }
        const Gradient g = gradient(weight, score, dropped.kept(m, n, i), input.dropout.scale,
                                    numbers.delta[column]);
        weights[m][n][i] = g.weight;
        score = g.score;
    });
}

// Grid: (tiles of keys, groups x parts of the columns, samples). A block computes dk and dv of its
// keys and columns. It sums over all queries, of all heads of the group, that see its keys.
template <typename T, int width, bool dropout>
__global__ __launch_bounds__(n_threads) void attention_backward_keys_kernel(
    AttentionInput input, const T* dout, const float* lse, const float* delta, T* dqkv) {
    using P = KeyPlan<width, dropout>;
    constexpr int m_tiles = P::m_tiles;
    constexpr int n_tiles = P::queries / 8;
    constexpr int parts = width / P::columns;
    using Dropped = std::conditional_t<dropout, KeptBits<m_tiles, n_tiles, true>, AllKept>;
    const int first_piece = static_cast<int>(blockIdx.y) % parts * (P::columns / 8);
    const int in_group = input.n_heads / input.n_groups;
    const int first_head = static_cast<int>(blockIdx.y) / parts * in_group;
    const int sample = static_cast<int>(blockIdx.z);
    const int first = static_cast<int>(blockIdx.x) * P::keys;  // tiles with the most queries first
    // First row of the warp in the tile of keys.
    const int row = static_cast<int>(threadIdx.x) / warp_size * 16 * m_tiles;
    const KeyMemory<T, width, dropout> memory{dynamic_shared<T>()};
    const SharedTile<T, width> k = memory.keys();
    const SharedTile<T, width> v = memory.values();
    const AttentionHead<T> head_0(input, sample,
                                  first_head);  // all heads of the group have the same keys

    // The outer loop runs over the heads of the group, the inner loop over queries: from the first
    // key of the tile (causal mask) to the last query whose document begins before the tile's end.
    const int first_query = first / P::queries * P::queries;
    const int last_query = last_query_of<n_threads>(head_0.starts, first_query, P::queries,
                                                    input.length, first + P::keys);
    struct Step {
        int head;
        int query;
    };
    const auto load_step = [&](const Step& step, int stage) {
        if (step.head < in_group) {
            const AttentionHead<T> head(input, sample, first_head + step.head);
            load_queries(memory, stage, input, head, dout, lse, delta, step.query);
        }
        commit_copies();
    };
    load_tile<P::keys, n_threads>(k, rows_of(input, head_0.k, input.qkv_stride()), first);
    load_tile<P::keys, n_threads>(v, rows_of(input, head_0.v, input.qkv_stride()), first);
    Sums<m_tiles, P::columns / 8> dk;
    Sums<m_tiles, P::columns / 8> dv;
    clear(dk);
    clear(dv);
    Step step{0, first_query};
    load_step(step, 0);
    for (int stage = 0; step.head < in_group; stage ^= 1) {
        const int query = step.query + P::queries;
        const Step next =
            query < last_query ? Step{step.head, query} : Step{step.head + 1, first_query};
        load_step(next, stage ^ 1);
        wait_for_copies<1>();  // all copies except the next stage's
        __syncthreads();
        const AttentionHead<T> head(input, sample, first_head + step.head);
        const QueryNumbers numbers = memory.numbers(stage);
        Sums<m_tiles, n_tiles> weights;  // K Q^T, then (P M)^T
        Sums<m_tiles, n_tiles> scores;   // V dout^T, then dS^T
        clear(weights);
        clear(scores);
        add_rows_by_rows(weights, k, row, memory.queries(stage));
        add_rows_by_rows(scores, v, row, memory.douts(stage));
        // No mask is needed when every query of the step exists and sees every key of the warp. The
        // last query of the step has the largest doc_start, because doc_start never decreases.
        const bool mask = first + row + 16 * m_tiles > step.query + 1 ||
                          step.query + P::queries > input.length ||
                          (head.starts && numbers.start[P::queries - 1] > first + row);
        finish_transposed(weights, scores, input, head, numbers, step.query, first + row, mask,
                          Dropped(input, head, step.query, first + row));
        Weights<m_tiles, n_tiles / 2> left;
        round_to_weights<T>(left, weights);
        add_weighted_rows(dv, left, memory.douts(stage), first_piece);
        round_to_weights<T>(left, scores);
        add_weighted_rows(dk, left, memory.queries(stage), first_piece);
        __syncthreads();  // no warp reads this stage any more, so the next iteration may refill it
        step = next;
    }
    wait_for_copies<0>();
    __syncthreads();
    // The results pass through k and v in shared memory. A warp overwrites only rows that no other
    // warp reads.
    store_gradient(dk, input.scale, k, row, input, head_0.k, dqkv, first, first_piece);
    store_gradient(dv, 1.0F, v, row, input, head_0.v, dqkv, first, first_piece);
}

// ---- dQ -----------------------------------------------------------------------------------------

// Tile sizes of the queries kernel: a warp has 16 * m_tiles queries, a step has `keys` keys.
template <int width, bool dropout>
struct QueryPlan {
    static constexpr int m_tiles = width <= 64 || (width <= 128 && !dropout) ? 2 : 1;
    static constexpr int keys = 32;
    static constexpr int queries = n_warps * 16 * m_tiles;
    // Shared memory: queries, dout, two stages of keys and values, QueryNumbers.
    static constexpr size_t tiles = SharedTile<u16, width>::bytes(2 * queries + 4 * keys);
    static constexpr size_t bytes = tiles + 3 * queries * sizeof(float);
};

// The shared memory of a block of the queries kernel. A stage holds one step's keys and values.
template <typename T, int width, bool dropout>
struct QueryMemory {
    using P = QueryPlan<width, dropout>;
    using Matrix = SharedTile<T, width>;
    T* base;

    __device__ Matrix queries() const { return {base}; }
    __device__ Matrix douts() const { return {base + P::queries * Matrix::stride}; }
    __device__ Matrix keys(int stage) const {
        return {base + (2 * P::queries + stage * 2 * P::keys) * Matrix::stride};
    }
    __device__ Matrix values(int stage) const {
        return {base + (2 * P::queries + (stage * 2 + 1) * P::keys) * Matrix::stride};
    }
    __device__ QueryNumbers numbers() const {
        return numbers_in<P::queries>(reinterpret_cast<unsigned char*>(base) + P::tiles);
    }
};

// Replaces dout V^T in `scores` by dS, where `weights` is Q K^T. `first` is the first query of the
// block's tile, `row` the warp's first row in it, `key` the step's first key. With `mask`, the
// weight of a key that the query does not see is 0.
template <typename T, int m_tiles, int n_tiles, typename Dropped>
__device__ void finish_scores(Sums<m_tiles, n_tiles>& scores, const Sums<m_tiles, n_tiles>& weights,
                              const AttentionInput& input, const AttentionHead<T>& head,
                              const QueryNumbers& numbers, int first, int row, int key, bool mask,
                              const Dropped& dropped) {
    const int lane = static_cast<int>(threadIdx.x) % warp_size;
    for_each(scores, [&](float& score, int m, int n, int i) {
        const int at = row + 16 * m + i / 2 * 8 + lane / 4;
        const int query = first + at;
        const int at_key = key + 8 * n + lane % 4 * 2 + i % 2;
        float weight = weight_of(head, weights[m][n][i], query, at_key, numbers.lse[at]);
        if (mask && (at_key > query || (head.starts && at_key < numbers.start[at]))) {
            weight = 0.0F;
        }
        score =
            gradient(weight, score, dropped.kept(m, n, i), input.dropout.scale, numbers.delta[at])
                .score;
    });
}

// Grid: (tiles of queries, heads, samples). A block computes dq of its queries over all visible
// keys.
template <typename T, int width, bool dropout>
__global__ __launch_bounds__(n_threads) void attention_backward_queries_kernel(
    AttentionInput input, const T* dout, const float* lse, const float* delta, T* dqkv) {
    using P = QueryPlan<width, dropout>;
    constexpr int m_tiles = P::m_tiles;
    constexpr int n_tiles = P::keys / 8;
    using Dropped = std::conditional_t<dropout, KeptBits<m_tiles, n_tiles, false>, AllKept>;
    const AttentionHead<T> head(input, static_cast<int>(blockIdx.z), static_cast<int>(blockIdx.y));
    // The tiles with the most keys come first, so that the last blocks to start are the shortest.
    const int first = static_cast<int>(gridDim.x - 1 - blockIdx.x) * P::queries;
    // First row of the warp in the tile of queries.
    const int row = static_cast<int>(threadIdx.x) / warp_size * 16 * m_tiles;
    const QueryMemory<T, width, dropout> memory{dynamic_shared<T>()};
    const SharedTile<T, width> q = memory.queries();
    const SharedTile<T, width> douts = memory.douts();
    const QueryNumbers numbers = memory.numbers();
    const int begin = first_key_of(head.starts, first) / P::keys * P::keys;
    const int end = min(first + P::queries, input.length);
    const auto load_step = [&](int key, int stage) {
        if (key < end) {
            load_tile<P::keys, n_threads>(memory.keys(stage),
                                          rows_of(input, head.k, input.qkv_stride()), key);
            load_tile<P::keys, n_threads>(memory.values(stage),
                                          rows_of(input, head.v, input.qkv_stride()), key);
        }
        commit_copies();
    };

    Sums<m_tiles, width / 8> dq;
    clear(dq);
    load_tile<P::queries, n_threads>(q, rows_of(input, head.q, input.qkv_stride()), first);
    load_tile<P::queries, n_threads>(
        douts, rows_of(input, dout + head.out_offset(input), input.out_stride()), first);
    load_numbers<P::queries, n_threads>(numbers, lse + head.row_offset(input),
                                        delta + head.row_offset(input), head.starts, first,
                                        input.length);
    load_step(begin, 0);
    for (int key = begin, stage = 0; key < end; key += P::keys, stage ^= 1) {
        load_step(key + P::keys, stage ^ 1);
        wait_for_copies<1>();
        __syncthreads();
        Sums<m_tiles, n_tiles> weights;  // Q K^T
        Sums<m_tiles, n_tiles> scores;   // dout V^T, then dS
        clear(weights);
        clear(scores);
        add_rows_by_rows(weights, q, row, memory.keys(stage));
        add_rows_by_rows(scores, douts, row, memory.values(stage));
        const bool mask = key + P::keys > first + row + 1 ||
                          (head.starts && (width > 128 ||  // no registers left for the tests below
                                           first + row + 16 * m_tiles > input.length ||
                                           numbers.start[row + 16 * m_tiles - 1] > key));
        finish_scores(scores, weights, input, head, numbers, first, row, key, mask,
                      Dropped(input, head, first + row, key));
        Weights<m_tiles, n_tiles / 2> left;
        round_to_weights<T>(left, scores);
        add_weighted_rows(dq, left, memory.keys(stage));
        __syncthreads();  // no warp reads this stage any more
    }
    wait_for_copies<0>();
    __syncthreads();
    store_gradient(dq, input.scale, q, row, input, head.q, dqkv, first);
}

template <typename T, int width, bool dropout>
void run(cudaStream_t stream, const AttentionInput& input, int batch, const T* dout,
         const float* lse, const float* delta, T* dqkv) {
    using Keys = KeyPlan<width, dropout>;
    const dim3 keys_grid(static_cast<unsigned>(ceil_div(input.length, Keys::keys)),
                         static_cast<unsigned>(input.n_groups * (width / Keys::columns)),
                         static_cast<unsigned>(batch));
    launch(stream, attention_backward_keys_kernel<T, width, dropout>, keys_grid, dim3(n_threads),
           Keys::bytes, input, dout, lse, delta, dqkv);
    using Queries = QueryPlan<width, dropout>;
    const dim3 queries_grid(static_cast<unsigned>(ceil_div(input.length, Queries::queries)),
                            static_cast<unsigned>(input.n_heads), static_cast<unsigned>(batch));
    launch(stream, attention_backward_queries_kernel<T, width, dropout>, queries_grid,
           dim3(n_threads), Queries::bytes, input, dout, lse, delta, dqkv);
}

}  // namespace

template <typename T>
void flash_attention_backward(cudaStream_t stream, const AttentionInput& input, int batch,
                              const T* dout, const float* lse, const float* delta, T* dqkv) {
    with_head_width(input.width, [&]<int width>(HeadWidth<width>) {
        if (input.dropout.threshold != 0) {
            return run<T, width, true>(stream, input, batch, dout, lse, delta, dqkv);
        }
        run<T, width, false>(stream, input, batch, dout, lse, delta, dqkv);
    });
}

template void flash_attention_backward(cudaStream_t, const AttentionInput&, int, const bf16*,
                                       const float*, const float*, bf16*);
template void flash_attention_backward(cudaStream_t, const AttentionInput&, int, const fp16*,
                                       const float*, const float*, fp16*);

}  // namespace lm::cuda
