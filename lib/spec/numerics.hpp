// SPDX-License-Identifier: Apache-2.0
// In which number format, and by whose attention kernels, a model computes.
#pragma once

#include "base/dtype.hpp"

namespace lm::spec {

struct Precision {
    DType weights = DType::fp32;  // fp32, bf16 or fp16
};

// Whose kernels compute attention on a GPU: --attention-backend.
enum class GpuAttention {
    flash,               // our own
    cudnn,               // cuDNN's; gradients in an order that is not always the same
    cudnn_deterministic  // cuDNN's; the same bits in every run, for more memory and time
};

}  // namespace lm::spec
