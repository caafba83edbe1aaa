// SPDX-License-Identifier: Apache-2.0
// Peak FLOP/s of GPUs in dense matrix products (without structured sparsity), for MFU.
#pragma once

#include <optional>
#include <string_view>

#include "base/dtype.hpp"

namespace lm::cost {

// Returns the FLOP/s of matrix products with inputs of `dtype` and fp32 accumulation (fp32: without
// TF32) of the GPU with the driver's name `device`, for example "NVIDIA H100 80GB HBM3". Returns
// nullopt for a GPU that is not in the table, and for a MIG slice: its name does not state which
// part of the GPU's clock and memory bandwidth it gets.
std::optional<double> peak_flops(std::string_view device, DType dtype);

// Returns true for the name of a MIG slice, for example "NVIDIA H100 80GB HBM3 MIG 3g.40gb".
bool is_slice(std::string_view device);

}  // namespace lm::cost
