// SPDX-License-Identifier: Apache-2.0
// The numbers that a rank stores for each parameter, and the attention kernels on a GPU.
//
// Why gradients are fp32 when weights have 16 bits. A gradient is a sum over micro-batches and then
// over replicas. bf16 has 8 significant bits, so that a summand below 1/512 of the sum so far is
// lost, and with 16 micro-batches on 64 replicas most summands are near that size. With fp32 sums
// all layouts agree to rounding, which is what the tests of all parallel code compare.
//
// The price is 4 bytes a parameter instead of 2, and twice the bytes of the reduction. The memory
// is small beside masters and moments (12 bytes); the reduction runs during backward
// (--overlap-grad-reduce), so a step is longer only where the network is slower than the compute
// of a micro-batch. Megatron-LM has the same default for bf16. Its --grad-reduce-in-bf16 is
// accepted with a note and has no effect: one kind of buffer means one kernel for sums, norm, clip
// and update.
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
inline constexpr std::array gpu_attentions{Named{GpuAttention::automatic, "auto"},
                                           Named{GpuAttention::flash, "flash"},
                                           Named{GpuAttention::cudnn, "fused"}};

}  // namespace lm::spec
