// SPDX-License-Identifier: Apache-2.0
// What GPUs can compute at most, for MFU: dense matrix products, without structured sparsity.
#pragma once

#include <optional>
#include <string_view>

#include "base/dtype.hpp"

namespace lm::spec {

// FLOP/s of matrix products with inputs of `dtype` and fp32 accumulation (fp32: without TF32), by
// the name that the driver gives the device: "NVIDIA H100 80GB HBM3". nullopt: not in the table.
std::optional<double> peak_flops(std::string_view device, DType dtype);

}  // namespace lm::spec
