// SPDX-License-Identifier: Apache-2.0
// Attention in fp32, for comparisons and small models. It uses plain fused multiply-adds, because
// tensor cores have no fp32, and no tiles. A warp computes one row of a result: of the output or
// dQ, or of dK and dV. It processes the rows of the other side (keys, or queries) 32 at a time:
// each lane computes the score of one row, then all lanes add the 32 weighted rows, each lane in
// its own columns. Rows are read through the caches; no row has two writers.
#include "cost/cuda_scratch.hpp"
#include "cuda/attention/attention_kernels.cuh"

namespace lm::cuda {
namespace {

constexpr int n_warps = 4;
constexpr int n_threads = n_warps * warp_size;
constexpr int widest = static_cast<int>(cost::cuda_widest_head);
constexpr int per_lane = widest / warp_size;

__device__ inline int lane() {
    return static_cast<int>(threadIdx.x) % warp_size;
}
__device__ inline int warp() {
    return static_cast<int>(threadIdx.x) / warp_size;
}

// A row of a warp, [D] fp32. Element i of a lane is column lane + 32 i.
struct Row {
    float x[per_lane] = {};
    // Adds `weight` of lane j times row j of `rows`, for j < n.
    __device__ __forceinline__ void add(float weight, const float* rows, i64 stride, int n,
                                        int width) {
        for (int j = 0; j < n; ++j) {
            const float of_row = __shfl_sync(all_lanes, weight, j);
#pragma unroll
            for (int i = 0; i < per_lane; ++i) {
                const int column = lane() + warp_size * i;
                if (column < width) x[i] = fmaf(of_row, rows[j * stride + column], x[i]);
            }
        }
    }
    __device__ void store(float* to, float factor, int width) const {
#pragma unroll
        for (int i = 0; i < per_lane; ++i) {
            const int column = lane() + warp_size * i;
            if (column < width) to[column] = x[i] * factor;
        }
    }
};

// Copies `row`, [D], to the shared memory of this warp, so that each lane can read the whole row.
__device__ const float* keep(float (&rows)[n_warps][widest], const float* row, int width) {
    float* const own = rows[warp()];
    for (int i = lane(); i < width; i += warp_size) own[i] = row[i];
    __syncwarp();
    return own;
}

__device__ __forceinline__ float dot(const float* kept, const float* row,
                                     const AttentionInput& input) {
    float sum = 0;
    const int end = input.vectors ? input.width : 0;
    for (int i = 0; i < end; i += 4) {
        float x[4];
        load(row + i, x);
#pragma unroll
        for (int e = 0; e < 4; ++e) sum = fmaf(kept[i + e], x[e], sum);
    }
    for (int i = end; i < input.width; ++i) sum = fmaf(kept[i], row[i], sum);
    return sum;
}

// Returns the factor of dropout for the weight of (query, key).
__device__ __forceinline__ float dropout_factor(const AttentionInput& input,
                                                const AttentionHead<float>& head, int query,
                                                int key) {
    if (input.dropout.threshold == 0) return 1;
    const u64 element = head.element(input, query, key);
    const DropoutBlock block = dropout_block(input.dropout.key, head.sample_id, element / 8);
    const bool kept = block.number(static_cast<int>(element % 8)) >= input.dropout.threshold;
    return kept ? input.dropout.scale : 0;
}

// Returns the score q k with the bias of ALiBi.
__device__ float biased(const AttentionHead<float>& head, float score, int query, int key) {
    return fmaf(head.slope, static_cast<float>(key - query), score);
}

// A warp writes a row of out and its lse.
__global__ void __launch_bounds__(n_threads, 1)
    attention_forward_fp32_kernel(AttentionInput input, float* out, float* lse) {
    __shared__ float rows[n_warps][widest];
    const int query = static_cast<int>(blockIdx.x) * n_warps + warp();
    if (query >= input.length) return;
    const AttentionHead<float> head(input, static_cast<int>(blockIdx.z),
                                    static_cast<int>(blockIdx.y));
    const i64 stride = input.qkv_stride();
    const float* const q = keep(rows, head.q + query * stride, input.width);
    Row result;
    float most = -INFINITY;
    float sum = 0;
    for (int first = first_key_of(head.starts, query); first <= query; first += warp_size) {
        const int key = first + lane();
        const bool seen = key <= query;
        const float score =
            seen ? biased(head, dot(q, head.k + key * stride, input), query, key) : -INFINITY;
        const float now = maximum(most, warp_reduce<Max>(score));
        const float rescale = exp2f((most - now) * head.scale_2);
        const float weight = seen ? exp2f((score - now) * head.scale_2) : 0.0F;
        most = now;
        // Dropout follows the sum of the softmax, because it applies to normalized probabilities.
        sum = fmaf(sum, rescale, warp_reduce<Add>(weight));
        for (float& x : result.x) x *= rescale;
        result.add(seen ? weight * dropout_factor(input, head, query, key) : 0.0F,
                   head.v + first * stride, stride, min(warp_size, query + 1 - first), input.width);
    }
    result.store(out + head.out_offset(input) + i64{query} * input.out_stride(), 1 / sum,
                 input.width);
    if (lane() == 0) lse[head.row_offset(input) + query] = most * input.scale + logf(sum);
}

// ---- Backward ----------------------------------------------------------------------------------

struct Gradients {
    const float* dout;   // [B, T, H*D]
    const float* lse;    // [B, H, T]
    const float* delta;  // [B, H, T]
    float* dqkv;         // [B, T, (H+2G)*D]
};

// The elements of P M and of dS for one (query, key); attention_backward.cu defines both matrices.
struct Element {
    float weight = 0;
    float score = 0;
};

// score: q k; dweight: dout v.
__device__ __forceinline__ Element element_of(const AttentionInput& input,
                                              const AttentionHead<float>& head, const Gradients& g,
                                              float score, float dweight, int query, int key) {
    const i64 row = head.row_offset(input) + query;
    const float weight =
        exp2f(biased(head, score, query, key) * head.scale_2 - g.lse[row] * log2_e);
    const float dropped = dropout_factor(input, head, query, key);
    return {weight * dropped, weight * fmaf(dweight, dropped, -g.delta[row])};
}

// A warp writes one row of dK and one of dV, for one group of heads.
__global__ void __launch_bounds__(n_threads, 1)
    attention_backward_keys_fp32_kernel(AttentionInput input, Gradients g) {
    __shared__ float k_rows[n_warps][widest];
    __shared__ float v_rows[n_warps][widest];
    const int key = static_cast<int>(blockIdx.x) * n_warps + warp();
    if (key >= input.length) return;
    const int in_group = input.n_heads / input.n_groups;
    const int first_head = static_cast<int>(blockIdx.y) * in_group;
    const AttentionHead<float> of_group(input, static_cast<int>(blockIdx.z), first_head);
    const i64 stride = input.qkv_stride();
    const i64 out_stride = input.out_stride();
    const float* const k = keep(k_rows, of_group.k + key * stride, input.width);
    const float* const v = keep(v_rows, of_group.v + key * stride, input.width);
    Row dk;
    Row dv;
    for (int h = 0; h < in_group; ++h) {
        const AttentionHead<float> head(input, static_cast<int>(blockIdx.z), first_head + h);
        const float* const dout = g.dout + head.out_offset(input);
        for (int first = key; first < input.length; first += warp_size) {
            if (first_key_of(head.starts, first) > key) break;  // starts never decrease
            const int query = first + lane();
            Element e;
            if (query < input.length && first_key_of(head.starts, query) <= key) {
                e = element_of(input, head, g, dot(k, head.q + query * stride, input),
                               dot(v, dout + query * out_stride, input), query, key);
            }
            const int n = min(warp_size, input.length - first);
            dv.add(e.weight, dout + first * out_stride, out_stride, n, input.width);
            dk.add(e.score, head.q + first * stride, stride, n, input.width);
        }
    }
    const float* const qkv = static_cast<const float*>(input.qkv);
    dk.store(g.dqkv + (of_group.k - qkv) + key * stride, input.scale, input.width);
    dv.store(g.dqkv + (of_group.v - qkv) + key * stride, 1, input.width);
}

// A warp writes a row of dQ.
__global__ void __launch_bounds__(n_threads, 1)
    attention_backward_queries_fp32_kernel(AttentionInput input, Gradients g) {
    __shared__ float q_rows[n_warps][widest];
    __shared__ float dout_rows[n_warps][widest];
    const int query = static_cast<int>(blockIdx.x) * n_warps + warp();
    if (query >= input.length) return;
    const AttentionHead<float> head(input, static_cast<int>(blockIdx.z),
                                    static_cast<int>(blockIdx.y));
    const i64 stride = input.qkv_stride();
    const float* const q = keep(q_rows, head.q + query * stride, input.width);
    const float* const dout = keep(
        dout_rows, g.dout + head.out_offset(input) + i64{query} * input.out_stride(), input.width);
    Row dq;
    for (int first = first_key_of(head.starts, query); first <= query; first += warp_size) {
        const int key = first + lane();
        Element e;
        if (key <= query) {
            e = element_of(input, head, g, dot(q, head.k + key * stride, input),
                           dot(dout, head.v + key * stride, input), query, key);
        }
        dq.add(e.score, head.k + first * stride, stride, min(warp_size, query + 1 - first),
               input.width);
    }
    const float* const qkv = static_cast<const float*>(input.qkv);
    dq.store(g.dqkv + (head.q - qkv) + query * stride, input.scale, input.width);
}

dim3 grid_of(const AttentionInput& input, int heads, int batch) {
    return dim3(static_cast<unsigned>(ceil_div(input.length, n_warps)),
                static_cast<unsigned>(heads), static_cast<unsigned>(batch));
}

}  // namespace

void fp32_attention_forward(cudaStream_t stream, const AttentionInput& input, int batch, float* out,
                            float* lse) {
    launch(stream, attention_forward_fp32_kernel, grid_of(input, input.n_heads, batch),
           dim3(n_threads), 0, input, out, lse);
}

void fp32_attention_backward(cudaStream_t stream, const AttentionInput& input, int batch,
                             const float* dout, const float* lse, const float* delta, float* dqkv) {
    const Gradients g{dout, lse, delta, dqkv};
    launch(stream, attention_backward_keys_fp32_kernel, grid_of(input, input.n_groups, batch),
           dim3(n_threads), 0, input, g);
    launch(stream, attention_backward_queries_fp32_kernel, grid_of(input, input.n_heads, batch),
           dim3(n_threads), 0, input, g);
}

}  // namespace lm::cuda
