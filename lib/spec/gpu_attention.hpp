// SPDX-License-Identifier: Apache-2.0
// Whose kernels compute attention on a GPU: --attention-backend.
#pragma once

namespace lm::spec {

enum class GpuAttention {
    flash,               // our own
    cudnn,               // cuDNN's; gradients in an order that is not always the same
    cudnn_deterministic  // cuDNN's; the same bits in every run, for more memory and time
};

}  // namespace lm::spec
