// SPDX-License-Identifier: Apache-2.0
// Attention of bf16 tensors on processors that multiply pairs of bf16 numbers.
#pragma once

#include "device/ops.hpp"

namespace lm::cpu {

// Returns whether attention of `type` is computed by the functions below.
bool uses_bf16_products(DType type);

void attention_forward_bf16(device::Context& context, const device::AttentionForward& a);
void attention_backward_bf16(device::Context& context, const device::AttentionBackward& a);

}  // namespace lm::cpu
