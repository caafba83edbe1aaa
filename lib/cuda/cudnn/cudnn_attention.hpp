// SPDX-License-Identifier: Apache-2.0
// Attention by cuDNN, in a plugin of its own (liblm_cudnn.so), so that only who asks for it needs
// cuDNN: --attention-backend fused (docs/cuda.md). For 16-bit types without dropout, whose mask is
// our own.
#pragma once

#include <cuda_runtime.h>

#include <compare>
#include <string>

#include "base/types.hpp"

namespace lm::cuda {

struct CudnnProblem {
    bool backward = false;
    bool deterministic = false;
    bool bf16 = true;  // else fp16
    i64 batch = 0;
    i64 length = 0;
    i64 n_heads = 0;
    i64 n_groups = 0;
    i64 width = 0;
    float scale = 0;
    bool alibi = false;
    bool documents = false;
    auto operator<=>(const CudnnProblem&) const = default;
};

// As device/ops.hpp has them; dout and dqkv of backward, slopes of ALiBi, starts of documents.
struct CudnnTensors {
    void* qkv = nullptr;
    void* out = nullptr;
    void* lse = nullptr;
    void* dout = nullptr;
    void* dqkv = nullptr;
    void* slopes = nullptr;
    void* starts = nullptr;
};

struct CudnnAttention {
    int abi = 3;
    // Bytes of workspace on the current device; -1 and a reason when cuDNN cannot do it. The first
    // call for a problem compiles a plan.
    i64 (*workspace_bytes)(const CudnnProblem& problem, std::string& why);
    // Of a problem that has a plan. Empty, or what went wrong.
    std::string (*run)(const CudnnProblem& problem, const CudnnTensors& tensors, void* workspace,
                       cudaStream_t stream);
    // Whether cuDNN has engines for the problem on a GPU that this machine need not have, described
    // as cuDNN describes it (JSON of CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR). Empty, or why not.
    std::string (*unsupported_on)(const CudnnProblem& problem, const std::string& device,
                                  int capability, int multiprocessors);
};

constexpr const char* cudnn_plugin_file = "liblm_cudnn.so";
constexpr const char* cudnn_plugin_entry = "lm_cudnn_attention";
using CudnnPluginEntry = const CudnnAttention* (*)();

}  // namespace lm::cuda
