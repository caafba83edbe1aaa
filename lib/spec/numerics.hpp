// SPDX-License-Identifier: Apache-2.0
// The numbers that a rank stores for each parameter, and the attention kernels on a GPU.
#pragma once

#include "base/dtype.hpp"
#include "spec/optimizer_state.hpp"

namespace lm::spec {

struct Precision {
    DType weights = DType::fp32;  // fp32, bf16 or fp16
    OptimizerKind optimizer = OptimizerKind::adam;
};

// The attention kernels on a GPU: --attention-backend.
// cuDNN's kernels add gradients in an order that varies from run to run. If cuDNN does not support
// a problem, the kernels of lib/cuda are used with every value of the flag.
enum class GpuAttention {
    automatic,  // cuDNN where every rank finds it, else flash
    flash,      // the kernels of lib/cuda
    cudnn       // cuDNN, which must exist
};

}  // namespace lm::spec
