// SPDX-License-Identifier: Apache-2.0
// The operations attention_forward and attention_backward. They fill the arguments of the kernels;
// backward computes delta first.
#include "cuda/attention/attention_kernels.cuh"
#include "cuda/device/cuda_device.hpp"
#include "cuda/device/ops.hpp"

namespace lm::cuda {
namespace {

using device::AttentionBackward;
using device::AttentionForward;

// Returns the kernels' arguments. `more`: the tensors that the kernels access in addition to qkv,
// [B, T, C] compute. T is the type of their elements. Kernels use 16-byte accesses only if qkv and
// all of `more` are aligned to 16 bytes.
template <typename T, typename Args>
AttentionInput input_of(const Args& a, std::initializer_list<device::View> more) {
    check_attention(a.head_dim, a.qkv[2], a.scale);
    AttentionInput input;
    input.qkv = a.qkv.data;
    input.doc_start = pointer<const i32>(a.doc_start);
    input.slopes = pointer<const float>(a.alibi_slopes);
    input.sample_ids = pointer<const i64>(a.dropout.sample_ids);
    input.first_head = a.dropout.first_head;
    input.dropout = dropout_numbers(a.dropout);
    input.length = static_cast<int>(a.qkv[1]);
    input.n_heads = static_cast<int>(a.n_heads);
    input.n_groups = static_cast<int>(a.n_groups);
    input.width = static_cast<int>(a.head_dim);
    input.scale = static_cast<float>(a.scale);
    input.vectors = a.head_dim % per_access<T> == 0 && aligned(pointer<T>(a.qkv));
    for (const device::View& view : more) {
        input.vectors = input.vectors && aligned(pointer<T>(view));
    }
    return input;
}

// Computes delta = rowsum(dout * out) over a head's columns (FlashAttention-2, algorithm 2, line
// 4). Eight lanes process a row of [B*T*H, D]. The kernel is bound by memory bandwidth; it reads
// dout and out once.
constexpr int delta_threads = 256;
constexpr int delta_lanes = 8;
constexpr int delta_rows = delta_threads / delta_lanes;

template <typename T, int n>
__device__ float dot_of_lane(const T* x, const T* y, int width) {
    float sum = 0;
    for (int i = static_cast<int>(threadIdx.x) % delta_lanes * n; i < width; i += delta_lanes * n) {
        float a[n];
        float b[n];
        load(x + i, a);
        load(y + i, b);
#pragma unroll
        for (int k = 0; k < n; ++k) sum = fmaf(a[k], b[k], sum);
    }
    return sum;
}

template <typename T>
__global__ void attention_delta_kernel(AttentionInput input, const T* dout, const T* out, i64 rows,
                                       float* delta) {
    const i64 row = i64{blockIdx.x} * delta_rows + threadIdx.x / delta_lanes;
    // Lanes without a row take part in the shuffles below, which need the whole warp.
    float sum = 0;
    if (row < rows) {
        const T* const x = dout + row * input.width;
        const T* const y = out + row * input.width;
        sum = input.vectors ? dot_of_lane<T, per_access<T>>(x, y, input.width)
                            : dot_of_lane<T, 1>(x, y, input.width);
    }
    for (int distance = delta_lanes / 2; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(all_lanes, sum, distance);
    }
    if (row >= rows || threadIdx.x % delta_lanes != 0) return;
    // Rows are [B, T, H]; delta is [B, H, T].
    const i64 token = row / input.n_heads;
    const i64 head = row % input.n_heads;
    const i64 sample = token / input.length;
    delta[(sample * input.n_heads + head) * input.length + token % input.length] = sum;
}

}  // namespace

namespace ops {

void attention_forward(device::Context& context, const AttentionForward& a) {
    if (cudnn_attention_forward(context, a)) return;
    with_type(a.qkv.dtype, [&]<typename T>(T) {
        const AttentionInput input = input_of<T>(a, {a.out});
        const int batch = static_cast<int>(a.qkv[0]);
        T* const out = pointer<T>(a.out);
        float* const lse = a.lse.as<float>();
        if constexpr (std::is_same_v<T, float>) {
            fp32_attention_forward(stream_of(context), input, batch, out, lse);
        } else {
            flash_attention_forward(stream_of(context), input, batch, out, lse);
        }
    });
}

void attention_backward(device::Context& context, const AttentionBackward& a) {
    if (cudnn_attention_backward(context, a)) return;
    with_type(a.qkv.dtype, [&]<typename T>(T) {
        const AttentionInput input = input_of<T>(a, {a.out, a.dout, a.dqkv});
        const int batch = static_cast<int>(a.qkv[0]);
        const T* const dout = pointer<T>(a.dout);
        const float* const lse = a.lse.as<float>();
        const i64 rows = cost::cuda_attention_floats(a.qkv[0], a.n_heads, a.qkv[1]);
        // [B, H, T] fp32
        float* const delta = arena_of(context.workspace).reserve<float>(rows);
        launch(stream_of(context), attention_delta_kernel<T>, blocks_for(rows, delta_rows),
               dim3(delta_threads), 0, input, dout, pointer<T>(a.out), rows, delta);
        T* const dqkv = pointer<T>(a.dqkv);
        if constexpr (std::is_same_v<T, float>) {
            fp32_attention_backward(stream_of(context), input, batch, dout, lse, delta, dqkv);
        } else {
            flash_attention_backward(stream_of(context), input, batch, dout, lse, delta, dqkv);
        }
    });
}

}  // namespace ops
}  // namespace lm::cuda
