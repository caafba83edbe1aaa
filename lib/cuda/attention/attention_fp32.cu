// SPDX-License-Identifier: Apache-2.0
// Attention in fp32, for comparisons and small models. The code is plain and slow. It uses no
// tiles. It uses fused multiply-adds instead of tensor cores, which do not support fp32. For the
// output and dQ, a thread computes the row of one query and loops over the keys. For dK and dV, a
// thread computes the rows of one key and loops over the queries. No row has two writers, and no
// thread waits for another thread.
#include "cuda/attention/attention_kernels.cuh"

namespace lm::cuda {
namespace {

constexpr int n_threads = 32;

// A vector in which this thread sums rows, [D] fp32, in shared memory. The elements i of all
// threads are adjacent, so that the threads use different banks.
class Sum {
  public:
    __device__ Sum(int number, int width)
        : x_(dynamic_shared<float>() + number * width * n_threads + threadIdx.x), width_(width) {
        for (int i = 0; i < width_; ++i) x_[i * n_threads] = 0;
    }
    // Multiplies the sum by `keep` and adds factor * row.
    __device__ void add(float factor, const float* row, float keep = 1) {
        for (int i = 0; i < width_; ++i) {
            x_[i * n_threads] = fmaf(factor, row[i], keep * x_[i * n_threads]);
        }
    }
    __device__ void store(float* to, float factor) const {
        for (int i = 0; i < width_; ++i) to[i] = factor * x_[i * n_threads];
    }

  private:
    float* x_;
    int width_;
};

__device__ float dot(const float* a, const float* b, int width) {
    float sum = 0;
    for (int i = 0; i < width; ++i) sum = fmaf(a[i], b[i], sum);
    return sum;
}

// Returns the row of a result that this thread computes.
__device__ int row_of_thread() {
    return static_cast<int>(blockIdx.x * n_threads + threadIdx.x);
}

// Returns the scaled score q k, with the bias of ALiBi, times log2(e): the softmax's weight is
// 2^(score - lse * log2(e)).
__device__ float score_of(const AttentionHead<float>& head, float q_k, int query, int key) {
    return fmaf(head.slope, static_cast<float>(key - query), q_k) * head.scale_2;
}

// Returns 0 if dropout drops the probability of (query, key), otherwise the dropout scale.
__device__ float dropout_factor(const AttentionInput& input, const AttentionHead<float>& head,
                                int query, int key) {
    if (input.dropout.threshold == 0) return 1;
    const u64 element = head.element(input, query, key);
    const DropoutBlock block = dropout_block(input.dropout.key, head.sample_id, element / 8);
    const bool kept = block.number(static_cast<int>(element % 8)) >= input.dropout.threshold;
    return kept ? input.dropout.scale : 0;
}

// Writes a row of out and its lse.
__global__ void __launch_bounds__(n_threads)
    attention_forward_fp32_kernel(AttentionInput input, float* out, float* lse) {
    const int query = row_of_thread();
    if (query >= input.length) return;
    const AttentionHead<float> head(input, static_cast<int>(blockIdx.z),
                                    static_cast<int>(blockIdx.y));
    const i64 stride = input.qkv_stride();
    Sum result(0, input.width);
    float most = -INFINITY;
    float sum = 0;
    for (int key = first_key_of(head.starts, query); key <= query; ++key) {
        const float q_k = dot(head.q + query * stride, head.k + key * stride, input.width);
        const float score = score_of(head, q_k, query, key);
        const float now = maximum(most, score);
        const float rescale = exp2f(most - now);
        const float weight = exp2f(score - now);
        most = now;
        // The sum has no dropout, because dropout applies to normalized probabilities.
        sum = fmaf(sum, rescale, weight);
        result.add(weight * dropout_factor(input, head, query, key), head.v + key * stride,
                   rescale);
    }
    result.store(out + head.out_offset(input) + i64{query} * input.out_stride(), 1 / sum);
    lse[head.row_offset(input) + query] = most * ln_2 + logf(sum);
}

struct Gradients {
    const float* dout;   // [B, T, H*D]
    const float* lse;    // [B, H, T]
    const float* delta;  // [B, H, T]
    float* dqkv;         // [B, T, (H+2G)*D]
};

// The elements of P M and of dS for one (query, key); attention_backward.cu defines both matrices.
struct Element {
    __device__ Element(const AttentionInput& input, const AttentionHead<float>& head,
                       const Gradients& g, int query, int key) {
        const i64 stride = input.qkv_stride();
        q = head.q + query * stride;
        k = head.k + key * stride;
        dout = g.dout + head.out_offset(input) + i64{query} * input.out_stride();
        const i64 row = head.row_offset(input) + query;
        const float score = score_of(head, dot(q, k, input.width), query, key);
        const float p = exp2f(score - g.lse[row] * log2_e);
        const float factor = dropout_factor(input, head, query, key);
        pm = p * factor;
        ds = p * fmaf(dot(dout, head.v + key * stride, input.width), factor, -g.delta[row]);
    }
    const float *q, *k, *dout;  // rows of D elements
    float pm, ds;
};

// Writes a row of dK and one of dV, for one group of heads.
__global__ void __launch_bounds__(n_threads)
    attention_backward_keys_fp32_kernel(AttentionInput input, Gradients g) {
    const int key = row_of_thread();
    if (key >= input.length) return;
    const int in_group = input.n_heads / input.n_groups;
    const int first_head = static_cast<int>(blockIdx.y) * in_group;
    Sum dk(0, input.width);
    Sum dv(1, input.width);
    for (int h = first_head; h < first_head + in_group; ++h) {
        const AttentionHead<float> head(input, static_cast<int>(blockIdx.z), h);
        // Begins with the last query, so that the threads of a warp, each with its own key, read
        // the same query at a time.
        for (int query = input.length - 1; query >= key; --query) {
            if (first_key_of(head.starts, query) > key) continue;
            const Element e(input, head, g, query, key);
            dv.add(e.pm, e.dout);
            dk.add(e.ds, e.q);
        }
    }
    const AttentionHead<float> group(input, static_cast<int>(blockIdx.z), first_head);
    float* const token =
        g.dqkv + (group.k - static_cast<const float*>(input.qkv)) + key * i64{input.qkv_stride()};
    dk.store(token, input.scale);
    dv.store(token + (group.v - group.k), 1);
}

// Writes a row of dQ.
__global__ void __launch_bounds__(n_threads)
    attention_backward_queries_fp32_kernel(AttentionInput input, Gradients g) {
    const int query = row_of_thread();
    if (query >= input.length) return;
    const AttentionHead<float> head(input, static_cast<int>(blockIdx.z),
                                    static_cast<int>(blockIdx.y));
    Sum dq(0, input.width);
    for (int key = first_key_of(head.starts, query); key <= query; ++key) {
        const Element e(input, head, g, query, key);
        dq.add(e.ds, e.k);
    }
    dq.store(
        g.dqkv + (head.q - static_cast<const float*>(input.qkv)) + query * i64{input.qkv_stride()},
        input.scale);
}

// Launches one thread for each (token, head, sample). `heads`: the number of heads, or of groups.
// Each thread has n_sums objects of the class Sum.
template <typename... Params, typename... Args>
void launch_rows(cudaStream_t stream, void (*kernel)(Params...), int heads, int batch, int n_sums,
                 const AttentionInput& input, Args... args) {
    const dim3 grid(static_cast<unsigned>(ceil_div(input.length, n_threads)),
                    static_cast<unsigned>(heads), static_cast<unsigned>(batch));
    const size_t shared_bytes =
        sizeof(float) * static_cast<size_t>(n_sums * input.width) * n_threads;
    launch(stream, kernel, grid, dim3(n_threads), shared_bytes, input, args...);
}

}  // namespace

void fp32_attention_forward(cudaStream_t stream, const AttentionInput& input, int batch, float* out,
                            float* lse) {
    launch_rows(stream, attention_forward_fp32_kernel, input.n_heads, batch, 1, input, out, lse);
}

void fp32_attention_backward(cudaStream_t stream, const AttentionInput& input, int batch,
                             const float* dout, const float* lse, const float* delta, float* dqkv) {
    const Gradients g{dout, lse, delta, dqkv};
    launch_rows(stream, attention_backward_keys_fp32_kernel, input.n_groups, batch, 2, input, g);
    launch_rows(stream, attention_backward_queries_fp32_kernel, input.n_heads, batch, 1, input, g);
}

}  // namespace lm::cuda
