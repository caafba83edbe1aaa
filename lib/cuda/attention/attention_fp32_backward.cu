// SPDX-License-Identifier: Apache-2.0
// Attention backward in fp32, in two kernels like attention_backward.cu: the keys kernel computes
// dK and dV, the queries kernel dQ. Every element has one writer. attention_fp32.cuh describes the
// thread layout.
#include "cuda/attention/attention_fp32.cuh"

namespace lm::cuda {
namespace {

using namespace fp32;

// Shared memory of the keys kernel: `rows` rows of keys and values, and one step of queries and
// dout. The queries kernel has `rows` rows of queries and dout, and one step of keys and values. In
// both, weights and gradients of scores follow, [rows][step] each.
template <int width>
struct BackwardPlan {
    static constexpr int m = width <= 128 ? 4 : 2;
    static constexpr int rows = side * m;
    static constexpr size_t bytes = sizeof(float) * (FloatTile<width>::floats(2 * rows + 2 * step) +
                                                     2 * ScoreTile::floats(rows));
};

// The elements of P M and of dS for one (query, key); attention_backward.cu defines both matrices.
struct Gradient {
    float weight;
    float score;
};

// Returns both elements for (query, key). score: q k; dweight: dout v; lse, delta: [B, H, T] fp32.
__device__ inline Gradient gradient(const AttentionInput& input, const AttentionHead<float>& head,
                                    float score, float dweight, int query, int key,
                                    const float* lse, const float* delta) {
    if (query >= input.length || key > query) return {0.0F, 0.0F};
    if (head.starts && key < head.starts[query]) return {0.0F, 0.0F};
    const i64 row = head.row_offset(input) + query;
    const float weight = exp2f(biased(head, score, query, key) * head.scale_2 - lse[row] * log2_e);
    const float dropped = kept(input, head, query, key) ? input.dropout.scale : 0.0F;
    return {weight * dropped, weight * fmaf(dweight, dropped, -delta[row])};
}

template <int width>
__global__ __launch_bounds__(n_threads, 1) void attention_backward_keys_fp32_kernel(
    AttentionInput input, const float* dout, const float* lse, const float* delta, float* dqkv) {
    using P = BackwardPlan<width>;
    const int sample = static_cast<int>(blockIdx.z);
    const int group = static_cast<int>(blockIdx.y);
    const int in_group = input.n_heads / input.n_groups;
    const int first = static_cast<int>(blockIdx.x) * P::rows;  // tiles with the most queries first
    const int x = static_cast<int>(threadIdx.x) % side;
    const int y = static_cast<int>(threadIdx.x) / side;
    const FloatTile<width> k{dynamic_shared<float>()};
    const FloatTile<width> v{k.row(P::rows)};
    const FloatTile<width> q{v.row(P::rows)};
    const FloatTile<width> douts{q.row(step)};
    const ScoreTile weights{douts.row(step)};
    const ScoreTile dscores{weights.row(P::rows)};
    const auto rows_of = [&](const float* base, int stride) {
        return FloatRows{base, stride, input.length, input.width, input.vectors};
    };
    const AttentionHead<float> first_head(input, sample, group * in_group);
    float dk[P::m][width / side];
    float dv[P::m][width / side];
    clear(dk);
    clear(dv);
    load_tile(k, rows_of(first_head.k, input.qkv_stride()), first, P::rows);
    load_tile(v, rows_of(first_head.v, input.qkv_stride()), first, P::rows);
    const int first_query = first / step * step;
    const int last_query = last_query_of<n_threads>(first_head.starts, first_query, step,
                                                    input.length, first + P::rows);
    for (int h = 0; h < in_group; ++h) {
        const AttentionHead<float> head(input, sample, group * in_group + h);
        for (int query = first_query; query < last_query; query += step) {
            load_tile(q, rows_of(head.q, input.qkv_stride()), query, step);
            load_tile(douts, rows_of(dout + head.out_offset(input), input.out_stride()), query,
                      step);
            wait_for_tiles();
            float scores[P::m][step_pieces];    // K Q^T, then (P M)^T
            float dweights[P::m][step_pieces];  // V dout^T, then dS^T
            clear(scores);
            clear(dweights);
            add_rows_by_rows(scores, k, q);
            add_rows_by_rows(dweights, v, douts);
            for (int i = 0; i < P::m; ++i) {
                for (int j = 0; j < step_pieces; ++j) {
                    const Gradient g =
                        gradient(input, head, scores[i][j], dweights[i][j], query + x + side * j,
                                 first + y + side * i, lse, delta);
                    scores[i][j] = g.weight;
                    dweights[i][j] = g.score;
                }
            }
            put_weights(weights, scores);
            put_weights(dscores, dweights);
            add_weighted_rows(dv, weights, douts);
            add_weighted_rows(dk, dscores, q);
            __syncthreads();  // no thread reads these queries and dout any more
        }
    }
    float factors[P::m];
    for (float& factor : factors) factor = input.scale;
    const float* const qkv = static_cast<const float*>(input.qkv);
    store_sums(dk, factors, dqkv + (first_head.k - qkv), input.qkv_stride(), input, first);
    for (float& factor : factors) factor = 1.0F;
    store_sums(dv, factors, dqkv + (first_head.v - qkv), input.qkv_stride(), input, first);
}

template <int width>
__global__ __launch_bounds__(n_threads, 1) void attention_backward_queries_fp32_kernel(
    AttentionInput input, const float* dout, const float* lse, const float* delta, float* dqkv) {
    using P = BackwardPlan<width>;
    const AttentionHead<float> head(input, static_cast<int>(blockIdx.z),
                                    static_cast<int>(blockIdx.y));
    // The tiles with the most keys come first, so that the last blocks to start are the shortest.
    const int first = static_cast<int>(gridDim.x - 1 - blockIdx.x) * P::rows;
    const int x = static_cast<int>(threadIdx.x) % side;
    const int y = static_cast<int>(threadIdx.x) / side;
    const FloatTile<width> q{dynamic_shared<float>()};
    const FloatTile<width> douts{q.row(P::rows)};
    const FloatTile<width> k{douts.row(P::rows)};
    const FloatTile<width> v{k.row(step)};
    const ScoreTile dscores{v.row(step)};
    const auto rows_of = [&](const float* base, int stride) {
        return FloatRows{base, stride, input.length, input.width, input.vectors};
    };
    const int begin = first_key_of(head.starts, first) / step * step;
    const int end = min(first + P::rows, input.length);
    float dq[P::m][width / side];
    clear(dq);
    load_tile(q, rows_of(head.q, input.qkv_stride()), first, P::rows);
    load_tile(douts, rows_of(dout + head.out_offset(input), input.out_stride()), first, P::rows);
    for (int key = begin; key < end; key += step) {
        load_tile(k, rows_of(head.k, input.qkv_stride()), key, step);
        load_tile(v, rows_of(head.v, input.qkv_stride()), key, step);
        wait_for_tiles();
        float scores[P::m][step_pieces];    // Q K^T
        float dweights[P::m][step_pieces];  // dout V^T, then dS
        clear(scores);
        clear(dweights);
        add_rows_by_rows(scores, q, k);
        add_rows_by_rows(dweights, douts, v);
        for (int i = 0; i < P::m; ++i) {
            for (int j = 0; j < step_pieces; ++j) {
                dweights[i][j] = gradient(input, head, scores[i][j], dweights[i][j],
                                          first + y + side * i, key + x + side * j, lse, delta)
                                     .score;
            }
        }
        put_weights(dscores, dweights);
        add_weighted_rows(dq, dscores, k);
        __syncthreads();  // no thread reads these keys and values any more
    }
    float factors[P::m];
    for (float& factor : factors) factor = input.scale;
    store_sums(dq, factors, dqkv + (head.q - static_cast<const float*>(input.qkv)),
               input.qkv_stride(), input, first);
}

}  // namespace

void fp32_attention_backward(cudaStream_t stream, const AttentionInput& input, int batch,
                             const float* dout, const float* lse, const float* delta, float* dqkv) {
    with_head_width(input.width, [&]<int width>(HeadWidth<width>) {
        using P = BackwardPlan<width>;
        launch(stream, attention_backward_keys_fp32_kernel<width>,
               grid_of(input, P::rows, input.n_groups, batch), dim3(n_threads), P::bytes, input,
               dout, lse, delta, dqkv);
        launch(stream, attention_backward_queries_fp32_kernel<width>,
               grid_of(input, P::rows, input.n_heads, batch), dim3(n_threads), P::bytes, input,
               dout, lse, delta, dqkv);
    });
}

}  // namespace lm::cuda
