// SPDX-License-Identifier: Apache-2.0
// Attention forward in fp32: FlashAttention-2 (Dao, 2023, algorithm 1). Grid: (tiles of queries,
// heads, samples). attention_fp32.cuh describes the thread layout.
#include "cuda/attention/attention_fp32.cuh"

namespace lm::cuda {
namespace {

using namespace fp32;

// Shared memory: queries, one step of keys and of values, weights [queries][step].
template <int width>
struct ForwardPlan {
    static constexpr int m = 4;
    static constexpr int queries = side * m;
    static constexpr size_t bytes =
        sizeof(float) * (FloatTile<width>::floats(queries + 2 * step) + ScoreTile::floats(queries));
};

// Replaces scores by weights and updates the maximum and the sum of each row. When the maximum
// grows, rescales the sum and the output so far. A row with only masked keys so far keeps its
// weights 0, which avoids inf - inf.
template <int m, int n>
__device__ void weigh(float (&scores)[m][step_pieces], float (&most)[m], float (&sum)[m],
                      float (&out)[m][n], float scale_2) {
#pragma unroll
    for (int i = 0; i < m; ++i) {
        float now = most[i];
#pragma unroll
        for (int j = 0; j < step_pieces; ++j) now = fmaxf(now, scores[i][j]);
        for (int distance = side / 2; distance > 0; distance /= 2) {
            now = fmaxf(now, __shfl_xor_sync(all_lanes, now, distance));
        }
        const bool none = now == -INFINITY;
        const float rescale = none ? 1.0F : exp2f((most[i] - now) * scale_2);
        most[i] = now;
        sum[i] *= rescale;
#pragma unroll
        for (int j = 0; j < step_pieces; ++j) {
            scores[i][j] = none ? 0.0F : exp2f((scores[i][j] - now) * scale_2);
            sum[i] += scores[i][j];
        }
#pragma unroll
        for (int c = 0; c < n; ++c) out[i][c] *= rescale;
    }
}

template <int width>
__global__ __launch_bounds__(n_threads, 1) void attention_forward_fp32_kernel(AttentionInput input,
                                                                              float* out,
                                                                              float* lse) {
    using P = ForwardPlan<width>;
    const AttentionHead<float> head(input, static_cast<int>(blockIdx.z),
                                    static_cast<int>(blockIdx.y));
    // The tiles with the most keys come first, so that the last blocks to start are the shortest.
    const int first = static_cast<int>(gridDim.x - 1 - blockIdx.x) * P::queries;
    const int x = static_cast<int>(threadIdx.x) % side;
    const int y = static_cast<int>(threadIdx.x) / side;
    const FloatTile<width> q{dynamic_shared<float>()};
    const FloatTile<width> k{q.row(P::queries)};
    const FloatTile<width> v{k.row(step)};
    const ScoreTile weights{v.row(step)};
    const auto rows_of = [&](const float* base) {
        return FloatRows{base, input.qkv_stride(), input.length, input.width, input.vectors};
    };
    const int begin = first_key_of(head.starts, first) / step * step;
    const int end = min(first + P::queries, input.length);
    float most[P::m];
    float sum[P::m];
    float result[P::m][width / side];
    clear(result);
#pragma unroll
    for (int i = 0; i < P::m; ++i) {
        most[i] = -INFINITY;
        sum[i] = 0.0F;
    }
    load_tile(q, rows_of(head.q), first, P::queries);
    for (int key = begin; key < end; key += step) {
        load_tile(k, rows_of(head.k), key, step);
        load_tile(v, rows_of(head.v), key, step);
        wait_for_tiles();
        // Thread (y, x) has the scores of rows y + side * i and columns x + side * j of the step. A
        // row is computed by adjacent lanes of one warp, so that weigh() reduces it by shuffles.
        float scores[P::m][step_pieces];
        clear(scores);
        add_rows_by_rows(scores, q, k);
        for (int i = 0; i < P::m; ++i) {
            const int at_query = first + y + side * i;
            const int start = head.starts && at_query < input.length ? head.starts[at_query] : 0;
            for (int j = 0; j < step_pieces; ++j) {
                const int at_key = key + x + side * j;
                const bool seen = at_key <= at_query && at_key >= start;
                scores[i][j] = seen ? biased(head, scores[i][j], at_query, at_key) : -INFINITY;
            }
        }
        weigh(scores, most, sum, result, head.scale_2);
        // Dropout follows the sum of the softmax, because it applies to normalized probabilities.
        for (int i = 0; i < P::m; ++i) {
            for (int j = 0; j < step_pieces; ++j) {
                if (!kept(input, head, first + y + side * i, key + x + side * j)) scores[i][j] = 0;
            }
        }
        put_weights(weights, scores);
        add_weighted_rows(result, weights, v);
        __syncthreads();  // no thread reads these keys and values any more
    }
    // The sum of a row is divided over its threads until here: one reduction instead of one in each
    // step.
    float factors[P::m];
    for (int i = 0; i < P::m; ++i) {
        float total = sum[i];
        for (int distance = side / 2; distance > 0; distance /= 2) {
            total += __shfl_xor_sync(all_lanes, total, distance);
        }
        factors[i] = input.dropout.scale / total;
        const int query = first + y + side * i;
        if (x == 0 && query < input.length) {
            lse[head.row_offset(input) + query] = most[i] * input.scale + logf(total);
        }
    }
    store_sums(result, factors, out + head.out_offset(input), input.out_stride(), input, first);
}

}  // namespace

void fp32_attention_forward(cudaStream_t stream, const AttentionInput& input, int batch, float* out,
                            float* lse) {
    with_head_width(input.width, [&]<int width>(HeadWidth<width>) {
        using P = ForwardPlan<width>;
        launch(stream, attention_forward_fp32_kernel<width>,
               grid_of(input, P::queries, input.n_heads, batch), dim3(n_threads), P::bytes, input,
               out, lse);
    });
}

}  // namespace lm::cuda
