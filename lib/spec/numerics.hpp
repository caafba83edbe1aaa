// SPDX-License-Identifier: Apache-2.0
// The number format of a model's weights, and the attention kernels on a GPU.
#pragma once

#include "base/dtype.hpp"

namespace lm::spec {

struct Precision {
    DType weights = DType::fp32;  // fp32, bf16 or fp16
};

// The attention kernels on a GPU: --attention-backend.
enum class GpuAttention {
    flash,               // the kernels of lib/cuda
    cudnn,               // cuDNN's kernels, which add gradients in an order that varies
    cudnn_deterministic  // cuDNN's kernels with the same bits in every run, for more memory and
                         // time
};

}  // namespace lm::spec
