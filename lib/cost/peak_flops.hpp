// SPDX-License-Identifier: Apache-2.0
// Peak FLOP/s of GPUs in dense matrix products (without structured sparsity), from which MFU is
// computed.
#pragma once

#include <optional>
#include <string_view>

#include "base/dtype.hpp"

namespace lm::cost {

// Returns the peak FLOP/s of matrix products with inputs of `dtype` and fp32 accumulation; the
// figure for fp32 is without TF32. `device` is the driver's name of the GPU, for example "NVIDIA
// H100 80GB HBM3". Returns nullopt for a GPU that is not in the table. Also returns nullopt for a
// MIG slice, whose name does not state its share of the GPU's clock and memory bandwidth.
std::optional<double> peak_flops(std::string_view device, DType dtype);

// Returns true for the name of a MIG slice, for example "NVIDIA H100 80GB HBM3 MIG 3g.40gb".
bool is_slice(std::string_view device);

}  // namespace lm::cost
