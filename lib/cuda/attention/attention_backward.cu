// SPDX-License-Identifier: Apache-2.0
// Attention backward on tensor cores: FlashAttention-2 (Dao, 2023, algorithm 2) in two kernels.
// With P the softmax, M the dropout factors and delta = rowsum(dout * out):
//     dV = (P M)^T dout;  dS = P * (M * (dout V^T) - delta);  dQ = scale dS K;  dK = scale dS^T Q.
// A block of the keys kernel has a tile of keys and loops over the queries of all heads of the
// group (dK, dV). A block of the queries kernel has a tile of queries and loops over the keys (dQ).
// Each kernel recomputes P and dS: 7 products instead of the 5 of a single kernel. In return every
// element has one writer: no atomics, no fp32 dQ in memory, and the same bits in every run.
// (Algorithm 2 adds to dQ atomically.) The workspace is delta.
//
// Both kernels compute P and dS in registers as accumulators and use them as the left operand of
// the next product (round_to_weights()). For that, the keys kernel computes the transposed scores K
// Q^T. A block has 4 warps; a warp has 16 m_tiles rows of the block's tile. The loop has two stages
// in shared memory: the copies of step i + 1 overlap the products of step i.
#include "cuda/attention/attention_kernels.cuh"
#include "cuda/attention/attention_tiles.cuh"

namespace lm::cuda {
namespace {

constexpr int n_warps = 4;
constexpr int n_threads = n_warps * warp_size;

// One element of P M and one of dS.
struct Gradient {
    float weight;  // P M: the weight after dropout
    float score;   // dS: the gradient of the score
};
// Returns them from the elements `weight` of P and `dweight` of dout V^T.
__device__ inline Gradient gradient(float weight, float dweight, bool kept, float dropout_scale,
                                    float delta) {
    const float dropped = kept ? dropout_scale : 0.0F;
    return {weight * dropped, weight * fmaf(dweight, dropped, -delta)};
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

template <int queries>
__device__ void load_numbers(const QueryNumbers& numbers, const float* lse, const float* delta,
                             const i32* starts, int query, int length) {
    for (int i = static_cast<int>(threadIdx.x); i < queries; i += n_threads) {
        const int bytes = query + i < length ? 4 : 0;
        copy_async_4(numbers.lse + i, lse + query + i, bytes);
        copy_async_4(numbers.delta + i, delta + query + i, bytes);
        if (starts) copy_async_4(numbers.start + i, starts + query + i, bytes);
    }
}

// Returns the softmax weight of a score without bias: exp(scale * score - lse).
template <typename T>
__device__ float weight_of(const AttentionHead<T>& head, float score, int query, int key,
                           float lse) {
    if (head.slope != 0.0F) score = fmaf(head.slope, static_cast<float>(key - query), score);
    return exp2_approximate(fmaf(score, head.scale_2, -lse * log2_e));
}

// ---- dK and dV ----------------------------------------------------------------------------------

// Tile sizes of the keys kernel: a warp has 16 m_tiles keys, a step has `queries` queries, and a
// block computes `columns` columns of dK and dV. For heads wider than 128 the accumulators of all
// columns do not fit into registers. So two blocks share the columns, and both compute the scores.
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

// Grid: (tiles of keys, groups x parts of the columns, samples). A block computes dk and dv of its
// keys and columns over all queries of the group's heads that see its keys.
template <typename T, int width, bool dropout>
__global__ __launch_bounds__(n_threads) void attention_backward_keys_kernel(
    AttentionInput input, const T* dout, const float* lse, const float* delta, T* dqkv) {
    using P = KeyPlan<width, dropout>;
    constexpr int m_tiles = P::m_tiles;
    constexpr int n_tiles = P::queries / 8;
    constexpr int parts = width / P::columns;
    const int group = static_cast<int>(blockIdx.y) / parts;
    const int first_piece = static_cast<int>(blockIdx.y) % parts * (P::columns / 8);
    const int in_group = input.n_heads / input.n_groups;
    const int sample = static_cast<int>(blockIdx.z);
    const int first = static_cast<int>(blockIdx.x) * P::keys;  // tiles with the most queries first
    const int lane = static_cast<int>(threadIdx.x) % warp_size;
    // First row of the warp in the tile of keys.
    const int row = static_cast<int>(threadIdx.x) / warp_size * 16 * m_tiles;

    const SharedTile<T, width> k{dynamic_shared<T>()};
    const SharedTile<T, width> v{k.data + P::keys * k.stride};
    T* const stages = v.data + P::keys * v.stride;
    float* const number_stages =
        reinterpret_cast<float*>(dynamic_shared<unsigned char>() + P::tiles);
    const auto rows_of = [&](const T* base, int stride) {
        return Rows<const T>{base, stride, input.length, input.width, input.vectors};
    };
    const auto queries_at = [&](int stage) {
        return SharedTile<T, width>{stages + stage * 2 * P::queries * k.stride};
    };
    const auto douts_at = [&](int stage) {
        return SharedTile<T, width>{stages + (stage * 2 + 1) * P::queries * k.stride};
    };
    const auto numbers_at = [&](int stage) {
        return numbers_in<P::queries>(number_stages + stage * 3 * P::queries);
    };

    // The loop runs over the heads of the group, and for each over the queries from the first key
    // of the tile (causal mask) to the last query whose document begins before the tile's end.
    const int first_query = first / P::queries * P::queries;
    const i32* const starts =
        input.doc_start ? input.doc_start + i64{sample} * input.length : nullptr;
    const int last_query =
        last_query_of<n_threads>(starts, first_query, P::queries, input.length, first + P::keys);
    struct Step {
        int head;
        int query;
    };
    const auto next_of = [&](const Step& step) {
        const int query = step.query + P::queries;
        return query < last_query ? Step{step.head, query} : Step{step.head + 1, first_query};
    };
    const auto load_step = [&](const Step& step, int stage) {
        if (step.head < in_group) {
            const AttentionHead<T> head(input, sample, group * in_group + step.head);
            load_tile<P::queries, n_threads>(queries_at(stage), rows_of(head.q, input.qkv_stride()),
                                             step.query);
            load_tile<P::queries, n_threads>(
                douts_at(stage), rows_of(dout + head.out_offset(input), input.out_stride()),
                step.query);
            const i64 offset = head.row_offset(input);
            load_numbers<P::queries>(numbers_at(stage), lse + offset, delta + offset, starts,
                                     step.query, input.length);
        }
        commit_copies();
    };

    Sums<m_tiles, P::columns / 8> dk;
    Sums<m_tiles, P::columns / 8> dv;
    clear(dk);
    clear(dv);
    {
        const AttentionHead<T> head(input, sample, group * in_group);
        load_tile<P::keys, n_threads>(k, rows_of(head.k, input.qkv_stride()), first);
        load_tile<P::keys, n_threads>(v, rows_of(head.v, input.qkv_stride()), first);
    }
    Step step{0, first_query};
    load_step(step, 0);
    for (int stage = 0; step.head < in_group; stage ^= 1) {
        const Step next = next_of(step);
        load_step(next, stage ^ 1);
        wait_for_copies<1>();  // all copies except those of the next stage
        __syncthreads();
        const AttentionHead<T> head(input, sample, group * in_group + step.head);
        const QueryNumbers numbers = numbers_at(stage);
        Sums<m_tiles, n_tiles> weights;  // K Q^T, then (P M)^T
        Sums<m_tiles, n_tiles> scores;   // V dout^T, then dS^T
        clear(weights);
        clear(scores);
        add_rows_by_rows(weights, k, row, queries_at(stage));
        add_rows_by_rows(scores, v, row, douts_at(stage));
        // False when every query of the step exists and sees every key of the warp. The last query
        // of the step has the largest doc_start, because doc_start never decreases.
        const bool mask = first + row + 16 * m_tiles > step.query + 1 ||
                          step.query + P::queries > input.length ||
                          (starts && numbers.start[P::queries - 1] > first + row);
        const auto finish = [&](const auto& dropped) {
#pragma unroll
            for (int n = 0; n < n_tiles; ++n) {
#pragma unroll
                for (int m = 0; m < m_tiles; ++m) {
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        const int column = 8 * n + lane % 4 * 2 + i % 2;
                        const int query = step.query + column;
                        const int key = first + row + 16 * m + i / 2 * 8 + lane / 4;
                        float weight =
                            weight_of(head, weights[m][n][i], query, key, numbers.lse[column]);
                        if (mask && (key > query || query >= input.length ||
                                     (starts && key < numbers.start[column]))) {
                            weight = 0.0F;
                        }
                        const Gradient g = gradient(weight, scores[m][n][i], dropped.kept(m, n, i),
                                                    input.dropout.scale, numbers.delta[column]);
                        weights[m][n][i] = g.weight;
                        scores[m][n][i] = g.score;
                    }
                }
            }
        };
        if constexpr (dropout) {
            finish(KeptBits<m_tiles, n_tiles, true>(input, head, step.query, first + row));
        } else {
            finish(AllKept{});
        }
        Weights<m_tiles, n_tiles / 2> left;
        round_to_weights<T>(left, weights);
        add_weighted_rows(dv, left, douts_at(stage), first_piece);
        round_to_weights<T>(left, scores);
        add_weighted_rows(dk, left, queries_at(stage), first_piece);
        __syncthreads();  // no warp reads this stage any more: the next iteration refills it
        step = next;
    }
    wait_for_copies<0>();
    __syncthreads();

    const AttentionHead<T> head(input, sample, group * in_group);
    float factors[m_tiles][2];
    const auto store = [&](const Sums<m_tiles, P::columns / 8>& sums,
                           const SharedTile<T, width>& tile, const T* base, float factor) {
#pragma unroll
        for (int m = 0; m < m_tiles; ++m) factors[m][0] = factors[m][1] = factor;
        const Rows<T> rows{dqkv + (base - static_cast<const T*>(input.qkv)), input.qkv_stride(),
                           input.length, input.width, input.vectors};
        store_sums(sums, factors, tile, row, rows, first, first_piece);
    };
    // Stores through k and v in shared memory: a warp overwrites only rows that no other warp
    // reads.
    store(dk, k, head.k, input.scale);
    store(dv, v, head.v, 1.0F);
}

// ---- dQ -----------------------------------------------------------------------------------------

// Tile sizes of the queries kernel: a warp has 16 m_tiles queries, a step has `keys` keys.
template <int width, bool dropout>
struct QueryPlan {
    static constexpr int m_tiles = width <= 64 || (width <= 128 && !dropout) ? 2 : 1;
    static constexpr int keys = 32;
    static constexpr int queries = n_warps * 16 * m_tiles;
    // Shared memory: queries, dout, two stages of keys and values, QueryNumbers.
    static constexpr size_t tiles = SharedTile<u16, width>::bytes(2 * queries + 4 * keys);
    static constexpr size_t bytes = tiles + 3 * queries * sizeof(float);
};

// Grid: (tiles of queries, heads, samples). A block computes dq of its queries over all visible
// keys.
template <typename T, int width, bool dropout>
__global__ __launch_bounds__(n_threads) void attention_backward_queries_kernel(
    AttentionInput input, const T* dout, const float* lse, const float* delta, T* dqkv) {
    using P = QueryPlan<width, dropout>;
    constexpr int m_tiles = P::m_tiles;
    constexpr int n_tiles = P::keys / 8;
    const AttentionHead<T> head(input, static_cast<int>(blockIdx.z), static_cast<int>(blockIdx.y));
    // The tiles with the most keys come first, so that the last blocks to start are the shortest.
    const int first = static_cast<int>(gridDim.x - 1 - blockIdx.x) * P::queries;
    const int lane = static_cast<int>(threadIdx.x) % warp_size;
    // First row of the warp in the tile of queries.
    const int row = static_cast<int>(threadIdx.x) / warp_size * 16 * m_tiles;

    const SharedTile<T, width> q{dynamic_shared<T>()};
    const SharedTile<T, width> douts{q.data + P::queries * q.stride};
    T* const stages = douts.data + P::queries * q.stride;
    const auto rows_of = [&](const T* base, int stride) {
        return Rows<const T>{base, stride, input.length, input.width, input.vectors};
    };
    const QueryNumbers numbers = numbers_in<P::queries>(dynamic_shared<unsigned char>() + P::tiles);
    const auto keys_at = [&](int stage) {
        return SharedTile<T, width>{stages + stage * 2 * P::keys * q.stride};
    };
    const auto values_at = [&](int stage) {
        return SharedTile<T, width>{stages + (stage * 2 + 1) * P::keys * q.stride};
    };
    const int begin = first_key_of(head.starts, first) / P::keys * P::keys;
    const int end = min(first + P::queries, input.length);
    const auto load_step = [&](int key, int stage) {
        if (key < end) {
            load_tile<P::keys, n_threads>(keys_at(stage), rows_of(head.k, input.qkv_stride()), key);
            load_tile<P::keys, n_threads>(values_at(stage), rows_of(head.v, input.qkv_stride()),
                                          key);
        }
        commit_copies();
    };

    Sums<m_tiles, width / 8> dq;
    clear(dq);
    load_tile<P::queries, n_threads>(q, rows_of(head.q, input.qkv_stride()), first);
    load_tile<P::queries, n_threads>(
        douts, rows_of(dout + head.out_offset(input), input.out_stride()), first);
    load_numbers<P::queries>(numbers, lse + head.row_offset(input), delta + head.row_offset(input),
                             head.starts, first, input.length);
    load_step(begin, 0);
    for (int key = begin, stage = 0; key < end; key += P::keys, stage ^= 1) {
        load_step(key + P::keys, stage ^ 1);
        wait_for_copies<1>();
        __syncthreads();
        Sums<m_tiles, n_tiles> weights;  // Q K^T
        Sums<m_tiles, n_tiles> scores;   // dout V^T, then dS
        clear(weights);
        clear(scores);
        add_rows_by_rows(weights, q, row, keys_at(stage));
        add_rows_by_rows(scores, douts, row, values_at(stage));
        const bool mask = key + P::keys > first + row + 1 ||
                          (head.starts && (width > 128 ||  // no registers left for the tests below
                                           first + row + 16 * m_tiles > input.length ||
                                           numbers.start[row + 16 * m_tiles - 1] > key));
        const auto finish = [&](const auto& dropped) {
            for_each(scores, [&](float& score, int m, int n, int i) {
                const int at = row + 16 * m + i / 2 * 8 + lane / 4;
                const int query = first + at;
                const int at_key = key + 8 * n + lane % 4 * 2 + i % 2;
                float weight = weight_of(head, weights[m][n][i], query, at_key, numbers.lse[at]);
                if (mask && (at_key > query || (head.starts && at_key < numbers.start[at]))) {
                    weight = 0.0F;
                }
                score = gradient(weight, score, dropped.kept(m, n, i), input.dropout.scale,
                                 numbers.delta[at])
                            .score;
            });
        };
        if constexpr (dropout) {
            finish(KeptBits<m_tiles, n_tiles, false>(input, head, first + row, key));
        } else {
            finish(AllKept{});
        }
        Weights<m_tiles, n_tiles / 2> left;
        round_to_weights<T>(left, scores);
        add_weighted_rows(dq, left, keys_at(stage));
        __syncthreads();  // no warp reads this stage any more
    }
    wait_for_copies<0>();
    __syncthreads();

    float factors[m_tiles][2];
#pragma unroll
    for (int m = 0; m < m_tiles; ++m) factors[m][0] = factors[m][1] = input.scale;
    const Rows<T> dq_rows{dqkv + (head.q - static_cast<const T*>(input.qkv)), input.qkv_stride(),
                          input.length, input.width, input.vectors};
    store_sums(dq, factors, q, row, dq_rows, first);
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
