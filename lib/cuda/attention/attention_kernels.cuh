// SPDX-License-Identifier: Apache-2.0
// The functions that enqueue attention's kernels; attention.cu calls them. The kernels are in
// several source files, because compiling each of them takes long.
#pragma once

#include "cuda/attention/attention.cuh"

namespace lm::cuda {

// Throws Error(bug) when the kernels do not support the head width `width`, qkv rows of `row`
// elements, or `scale`.
void check_attention(i64 width, i64 row, double scale);

// Compute attention by cuDNN if the device was set to use it (Device::use_cudnn). Return false when
// cuDNN is off or does not support the arguments. The caller must then use the kernels below.
bool cudnn_attention_forward(device::Context& context, const device::AttentionForward& a);
bool cudnn_attention_backward(device::Context& context, const device::AttentionBackward& a);

template <int n>
struct HeadWidth {};

// Calls body with the smallest head width that is at least `width` and has a compiled kernel.
template <typename Body>
void with_head_width(int width, Body&& body) {
    if (width <= 64) return body(HeadWidth<64>{});
    if (width <= 128) return body(HeadWidth<128>{});
    body(HeadWidth<256>{});
}

// Writes out and lse. Computes bf16 and fp16 attention on tensor cores. out: [B, T, H*D] T; lse:
// [B, H, T] fp32.
template <typename T>
void flash_attention_forward(cudaStream_t stream, const AttentionInput& input, int batch, T* out,
                             float* lse);

// Writes dqkv, of the shape of qkv. dout: [B, T, H*D] T; lse, delta: [B, H, T] fp32, delta =
// rowsum(dout * out).
template <typename T>
void flash_attention_backward(cudaStream_t stream, const AttentionInput& input, int batch,
                              const T* dout, const float* lse, const float* delta, T* dqkv);

// Attention of fp32, with fp32 arithmetic throughout. The arguments are the same as for the
// functions for 16-bit types.
void fp32_attention_forward(cudaStream_t stream, const AttentionInput& input, int batch, float* out,
                            float* lse);
void fp32_attention_backward(cudaStream_t stream, const AttentionInput& input, int batch,
                             const float* dout, const float* lse, const float* delta, float* dqkv);

}  // namespace lm::cuda
