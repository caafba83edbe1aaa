// SPDX-License-Identifier: Apache-2.0
// Attention in fp32, exactly: the algorithm of attention_forward.cu and attention_backward.cu with
// plain multiplications and additions instead of tensor cores, which have no fp32. A block's 256
// threads are a square of 16 x 16; thread (y, x) has the scores of rows y + 16 i and columns
// x + 16 j of a tile, so that a row belongs to half a warp.
#include "cuda/attention_kernels.cuh"

namespace lm::cuda {
namespace {

constexpr int side = 16;
constexpr int n_threads = side * side;
constexpr int step = 32;  // rows of the tiles that a block walks over
constexpr int step_pieces = step / side;

// Rows of floats in shared memory; the padding puts the same column of neighbouring rows into
// different banks.
template <int width>
struct FloatTile {
    static constexpr int stride = width + 4;
    static constexpr int floats(int rows) { return stride * rows; }
    __device__ float* row(int r) const { return data + r * stride; }
    float* data;
};
using ScoreTile = FloatTile<step>;

// Where rows lie in global memory: row r at base + r * stride.
struct FloatRows {
    const float* base;
    int stride;
    int length;
    int width;
    bool vectors;
};

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

// sums[i][j] += row y + 16 i of a times row x + 16 j of b.
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

// sums[i][4 c + e] += row y + 16 i of the weights times column 64 c + 4 x + e of b. Only the half
// warp that has the rows has written them.
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

// Writes sums, times factors of their rows, to rows first + y + 16 i at base.
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

__device__ inline bool kept(const AttentionInput& input, const AttentionHead<float>& head,
                            int query, int key) {
    if (input.dropout.threshold == 0) return true;
    const u64 element = head.element(input, query, key);
    const DropoutBlock block = dropout_block(input.dropout.key, head.sample_id, element / 8);
    return block.number(static_cast<int>(element % 8)) >= input.dropout.threshold;
}

__device__ inline float biased(const AttentionHead<float>& head, float score, int query, int key) {
    return fmaf(head.slope, static_cast<float>(key - query), score);
}

// ---- forward ------------------------------------------------------------------------------------

template <int width>
struct ForwardPlan {
    static constexpr int m = 4;
    static constexpr int queries = side * m;
    static constexpr size_t bytes =
        sizeof(float) * (FloatTile<width>::floats(queries + 2 * step) + ScoreTile::floats(queries));
};

// Scores become weights; sums of what was before are rescaled.
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
    const int first = static_cast<int>(gridDim.x - 1 - blockIdx.x) * P::queries;  // longest first
    const int x = static_cast<int>(threadIdx.x) % side;
    const int y = static_cast<int>(threadIdx.x) / side;
    const FloatTile<width> q{dynamic_shared<float>()};
    const FloatTile<width> k{q.row(P::queries)};
    const FloatTile<width> v{k.row(step)};
    const ScoreTile weights{v.row(step)};
    const auto rows_of = [&](const float* base) {
        return FloatRows{base, input.qkv_stride(), input.length, input.width, input.vectors};
    };
    const int begin =
        first_key_of<n_threads>(head.starts, first, P::queries, input.length) / step * step;
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
        for (int i = 0; i < P::m; ++i) {
            for (int j = 0; j < step_pieces; ++j) {
                if (!kept(input, head, first + y + side * i, key + x + side * j)) scores[i][j] = 0;
            }
        }
        put_weights(weights, scores);
        add_weighted_rows(result, weights, v);
        __syncthreads();  // keys and values are done with
    }
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

// ---- backward -----------------------------------------------------------------------------------

// Rows that a block holds: of queries and dout, or of keys and values.
template <int width>
struct BackwardPlan {
    static constexpr int m = width <= 128 ? 4 : 2;
    static constexpr int rows = side * m;
    static constexpr size_t bytes = sizeof(float) * (FloatTile<width>::floats(2 * rows + 2 * step) +
                                                     2 * ScoreTile::floats(rows));
};

struct Gradient {
    float weight;  // after dropout
    float score;   // its gradient, without scale
};

// From a score, the gradient of its weight, and the query's numbers.
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
    const int first = static_cast<int>(blockIdx.x) * P::rows;  // longest first
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
    for (int h = 0; h < in_group; ++h) {
        const AttentionHead<float> head(input, sample, group * in_group + h);
        for (int query = first / step * step; query < input.length; query += step) {
            if (!any_sees<n_threads>(head.starts, query, step, input.length, first + P::rows)) {
                continue;
            }
            load_tile(q, rows_of(head.q, input.qkv_stride()), query, step);
            load_tile(douts, rows_of(dout + head.out_offset(input), input.out_stride()), query,
                      step);
            wait_for_tiles();
            float scores[P::m][step_pieces];    // transposed; then weights
            float dweights[P::m][step_pieces];  // then gradients of scores
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
            __syncthreads();  // queries and dout are done with
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
    const int first = static_cast<int>(gridDim.x - 1 - blockIdx.x) * P::rows;  // longest first
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
    const int begin =
        first_key_of<n_threads>(head.starts, first, P::rows, input.length) / step * step;
    const int end = min(first + P::rows, input.length);
    float dq[P::m][width / side];
    clear(dq);
    load_tile(q, rows_of(head.q, input.qkv_stride()), first, P::rows);
    load_tile(douts, rows_of(dout + head.out_offset(input), input.out_stride()), first, P::rows);
    for (int key = begin; key < end; key += step) {
        load_tile(k, rows_of(head.k, input.qkv_stride()), key, step);
        load_tile(v, rows_of(head.v, input.qkv_stride()), key, step);
        wait_for_tiles();
        float scores[P::m][step_pieces];
        float dweights[P::m][step_pieces];  // then gradients of scores
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
        __syncthreads();  // keys and values are done with
    }
    float factors[P::m];
    for (float& factor : factors) factor = input.scale;
    store_sums(dq, factors, dqkv + (head.q - static_cast<const float*>(input.qkv)),
               input.qkv_stride(), input, first);
}

dim3 grid_of(const AttentionInput& input, int rows, int heads, int batch) {
    return dim3(static_cast<unsigned>(ceil_div(input.length, rows)), static_cast<unsigned>(heads),
                static_cast<unsigned>(batch));
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
