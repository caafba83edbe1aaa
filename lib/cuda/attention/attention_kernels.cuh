// SPDX-License-Identifier: Apache-2.0
// The kernels of attention as attention.cu starts them; they lie in several files because each
// takes the compiler long.
#pragma once

#include "cuda/attention/attention.cuh"

namespace lm::cuda {

// A bug of ours where the kernels cannot hold a head of `width`, or a token's row of qkv.
void check_attention(i64 width, i64 row, double scale);

// Attention by cuDNN, where the device is to use it (attention_host.cpp). False: our
// kernels are to do it.
bool cudnn_attention_forward(device::Context& context, const device::AttentionForward& a);
bool cudnn_attention_backward(device::Context& context, const device::AttentionBackward& a);

template <int n>
struct HeadWidth {};

// Calls body with the narrowest width that kernels are made for and that holds `width`.
template <typename Body>
void with_head_width(int width, Body&& body) {
    if (width <= 64) return body(HeadWidth<64>{});
    if (width <= 128) return body(HeadWidth<128>{});
    body(HeadWidth<256>{});
}

// For 16-bit types, on tensor cores.
template <typename T>
void flash_attention_forward(cudaStream_t stream, const AttentionInput& input, int batch, T* out,
                             float* lse);

// dqkv from dout; delta is what attention_delta() made.
template <typename T>
void flash_attention_backward(cudaStream_t stream, const AttentionInput& input, int batch,
                              const T* dout, const float* lse, const float* delta, T* dqkv);

// For fp32, with fp32 arithmetic throughout.
void fp32_attention_forward(cudaStream_t stream, const AttentionInput& input, int batch, float* out,
                            float* lse);
void fp32_attention_backward(cudaStream_t stream, const AttentionInput& input, int batch,
                             const float* dout, const float* lse, const float* delta, float* dqkv);

}  // namespace lm::cuda
