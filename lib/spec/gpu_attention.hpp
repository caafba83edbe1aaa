// SPDX-License-Identifier: Apache-2.0
// Whose kernels compute attention on a GPU, which the environment's LM_ATTENTION decides.
#pragma once

namespace lm::spec {

enum class GpuAttention {
    flash,               // our own
    cudnn,               // cuDNN's; gradients in an order that is not always the same
    cudnn_deterministic  // cuDNN's; the same bits in every run, for more memory and time
};

// Usage error for another word.
GpuAttention gpu_attention();

}  // namespace lm::spec
