// SPDX-License-Identifier: Apache-2.0
// Linear layers with fp32 activations and weights of any storage type: y = x w^T + bias. A few rows
// of x are multiplied while each weight is read once from memory and widened in registers. Many
// rows are a matrix product; 16-bit weights are widened in bands, in scratch memory.
#pragma once

#include "device/device.hpp"

namespace lm::infer {

using device::View;

struct MixedLinear {
    View x;     // [M, K] fp32
    View w;     // [N, K] fp32, bf16 or fp16
    View bias;  // [N] fp32; optional
    View y;     // [M, N] fp32
};

// Floats of scratch memory for linear layers with K inputs; 0 for fp32 weights.
i64 band_floats(DType weights, i64 inputs);

// `context` belongs to a CPU device. band: [at least band_floats()] fp32.
void mixed_linear(device::Context& context, const MixedLinear& linear, const View& band);

}  // namespace lm::infer
