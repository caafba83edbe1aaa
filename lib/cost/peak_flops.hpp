// SPDX-License-Identifier: Apache-2.0
// What GPUs can compute at most, for MFU: dense matrix products, without structured sparsity.
#pragma once

#include <optional>
#include <string_view>

#include "base/dtype.hpp"

namespace lm::cost {

// FLOP/s of matrix products with inputs of `dtype` and fp32 accumulation (fp32: without TF32), by
// the name that the driver gives the device: "NVIDIA H100 80GB HBM3". nullopt: not in the table.
// Nor is a part of a GPU: of a MIG slice the name alone says that it is one, not how much of the
// GPU's clock and memory others leave to it.
std::optional<double> peak_flops(std::string_view device, DType dtype);

// "NVIDIA H100 80GB HBM3 MIG 3g.40gb": a part of a GPU.
bool is_slice(std::string_view device);

}  // namespace lm::cost
