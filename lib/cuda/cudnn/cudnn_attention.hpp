// SPDX-License-Identifier: Apache-2.0
// Attention by cuDNN, in a separate plugin (liblm_cudnn.so), so that lm-train also runs where cuDNN
// is not installed (docs/cuda.md). It supports 16-bit types without dropout, because cuDNN's
// dropout mask would differ from device/dropout.hpp.
//
// This plugin, cuDNN and liblm_cuda.so each contain a CUDA runtime of their own. Streams and device
// memory belong to the driver, so these libraries can pass them to each other. All runtimes read
// the current device from the driver's context of the calling thread (cudaGetDevice() calls
// cuCtxGetDevice()). So only a thread that has called cudaSetDevice() may call the functions below.
#pragma once

#include <cuda_runtime.h>

#include <compare>
#include <string>

#include "base/types.hpp"

namespace lm::cuda {

struct CudnnProblem {
    bool backward = false;
    bool bf16 = true;  // false: fp16
    i64 batch = 0;     // B
    i64 length = 0;    // T
    i64 n_heads = 0;   // H
    i64 n_groups = 0;  // G
    i64 width = 0;     // D
    float scale = 0;
    bool alibi = false;      // tensors.slopes is used
    bool documents = false;  // tensors.starts is used
    auto operator<=>(const CudnnProblem&) const = default;
};

// Device pointers; see device::AttentionForward and AttentionBackward.
struct CudnnTensors {
    void* qkv = nullptr;     // [B, T, (H+2G)*D] bf16|fp16
    void* out = nullptr;     // [B, T, H*D] bf16|fp16
    void* lse = nullptr;     // [B, H, T] fp32
    void* dout = nullptr;    // [B, T, H*D] bf16|fp16; backward only
    void* dqkv = nullptr;    // [B, T, (H+2G)*D] bf16|fp16; backward only
    void* slopes = nullptr;  // [H] fp32; with ALiBi only
    void* starts = nullptr;  // [B, T] int32; with documents only
};

// The functions of the plugin.
struct CudnnAttention {
    int abi = 5;  // increase it with every change of this header
    // Returns the bytes of workspace that cuDNN needs for `problem` on the current device. When
    // cuDNN does not support the problem, returns -1 and sets `why` to the reason. The first call
    // for a problem compiles a plan.
    i64 (*workspace_bytes)(const CudnnProblem& problem, std::string& why);
    // Enqueues attention for a problem with a compiled plan. Returns an empty string, or an error
    // message.
    std::string (*run)(const CudnnProblem& problem, const CudnnTensors& tensors, void* workspace,
                       cudaStream_t stream);
    // Like workspace_bytes(), but for a GPU that need not be present: `device` is cuDNN's
    // description of the GPU (the JSON of CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR). The plan cannot be
    // run.
    i64 (*workspace_on)(const CudnnProblem& problem, const std::string& device, int capability,
                        int multiprocessors, std::string& why);
};

constexpr const char* cudnn_plugin_file = "liblm_cudnn.so";
constexpr const char* cudnn_plugin_entry = "lm_cudnn_attention";
using CudnnPluginEntry = const CudnnAttention* (*)();

}  // namespace lm::cuda

// The symbol `cudnn_plugin_entry` of the library.
extern "C" __attribute__((visibility("default"))) const lm::cuda::CudnnAttention*
lm_cudnn_attention();
