// SPDX-License-Identifier: Apache-2.0
// The part of attention that g++ compiles: argument checks, and attention by cuDNN when the device
// uses it. It is separate from attention.cu, because nvcc does not compile fmt.
#include <limits>
#include <set>
#include <string>

#include "base/error.hpp"
#include "base/log.hpp"
#include "cost/cuda_scratch.hpp"
#include "cuda/cudnn/cudnn_attention.hpp"
#include "cuda/device/cuda_device.hpp"

namespace lm::cuda {

void check_attention(i64 width, i64 row, double scale);
bool cudnn_attention_forward(device::Context& context, const device::AttentionForward& a);
bool cudnn_attention_backward(device::Context& context, const device::AttentionBackward& a);

namespace {

// Returns whether cuDNN can read the view, [...] of any dtype, in steps of 16 bytes.
bool aligned(const device::View& view) {
    return reinterpret_cast<uintptr_t>(view.data) % 16 == 0;
}

// Prints a note with the reason why cuDNN is not used, once for each reason. Returns false.
bool declined(const std::string& why) {
    static std::set<std::string> printed;
    if (printed.insert(why).second)
        note("attention: using the kernels of lm-train instead of cuDNN: {}", why);
    return false;
}

// Returns whether cuDNN has plans for forward and backward that fit in `workspace` bytes. Checks
// both plans even before a forward pass, so that the forward and backward of a micro-batch never
// use different kinds of kernels.
bool has_plans(const CudnnAttention& cudnn, CudnnProblem problem, i64 workspace) {
    for (const bool backward : {false, true}) {
        problem.backward = backward;
        std::string why;
        const i64 bytes = cudnn.workspace_bytes(problem, why);
        if (bytes < 0) return declined(why);
        // A formula has planned the size of the workspace (cost/workspace.cpp), but a cuDNN engine
        // may need more.
        if (bytes <= workspace) continue;
        return declined(fmt::format("cuDNN needs {} bytes of workspace, got {}", bytes, workspace));
    }
    return true;
}

// Performs attention by cuDNN. Returns false when cuDNN is not selected or does not support the
// arguments; the caller then uses the kernels of this plugin.
template <typename Args>
bool run(device::Context& context, const Args& a, bool backward, CudnnTensors tensors) {
    const CudnnAttention* const cudnn = device_of(context).cudnn();
    if (cudnn == nullptr) return false;
    if (!is_half(a.qkv.dtype)) return declined("cuDNN needs --bf16 or --fp16, got fp32");
    if (a.dropout.on())
        return declined(
            "its dropout mask differs from that of lm-train: set --attention-dropout 0");
    if (a.head_dim % 8 != 0 || !aligned(a.qkv) || !aligned(a.out)) {
        return declined(fmt::format(
            "tensors and heads must begin at multiples of 16 bytes; a head has {} elements",
            a.head_dim));
    }
    const CudnnProblem problem{.backward = backward,
                               .bf16 = a.qkv.dtype == DType::bf16,
                               .batch = a.qkv[0],
                               .length = a.qkv[1],
                               .n_heads = a.n_heads,
                               .n_groups = a.n_groups,
                               .width = a.head_dim,
                               .scale = static_cast<float>(a.scale),
                               .alibi = bool{a.alibi_slopes},
                               .documents = bool{a.doc_start}};
    if (!has_plans(*cudnn, problem, context.workspace.bytes())) return false;
    tensors.slopes = a.alibi_slopes.data;
    tensors.starts = a.doc_start.data;
    const std::string failure =
        cudnn->run(problem, tensors, begin_of(context.workspace), stream_of(context));
    if (!failure.empty()) run_error("cuDNN", "attention: {}", failure);
    return true;
}

}  // namespace

bool cudnn_attention_forward(device::Context& context, const device::AttentionForward& a) {
    return run(context, a, false, {a.qkv.data, a.out.data, a.lse.data});
}

bool cudnn_attention_backward(device::Context& context, const device::AttentionBackward& a) {
    return run(context, a, true, {a.qkv.data, a.out.data, a.lse.data, a.dout.data, a.dqkv.data});
}

void check_attention(i64 width, i64 row, double scale) {
    LM_CHECK(width <= cost::cuda_widest_head,
             "attention: expected a head of at most {} elements, got {}", cost::cuda_widest_head,
             width);
    LM_CHECK(row <= std::numeric_limits<int>::max(),
             "attention: expected a row of qkv of at most {} elements, got {}",
             std::numeric_limits<int>::max(), row);
    LM_CHECK(scale > 0, "attention: expected a positive scale, got {}", scale);
}

}  // namespace lm::cuda
