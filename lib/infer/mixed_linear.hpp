// SPDX-License-Identifier: Apache-2.0
// Linear layers with fp32 activations and weights of any storage type: y = x w^T + bias. For a few
// rows of x, each weight is read once from memory and widened to fp32 in registers, and a row of y
// has the same bits for any number of rows. For many rows, mixed_linear() calls the CPU's GEMM; it
// first widens 16-bit weights to fp32 in scratch memory, a band of consecutive rows of w at a time.
#pragma once

#include "device/device.hpp"

namespace lm::infer {

using device::View;

struct MixedLinear {
    View x;              // [M, K] fp32
    View w;              // [N, K] fp32, bf16 or fp16
    View bias;           // [N] fp32; optional
    View y;              // [M, N] fp32
    bool apart = false;  // computes many rows as it does a few
};

// Returns the number of floats in the scratch memory that linear layers with `inputs` inputs need;
// 0 for fp32 weights.
i64 band_floats(DType weights, i64 inputs);

// `context` belongs to a CPU device. band: [at least band_floats()] fp32.
void mixed_linear(device::Context& context, const MixedLinear& linear, const View& band);

}  // namespace lm::infer
