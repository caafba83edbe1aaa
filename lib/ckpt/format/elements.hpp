// SPDX-License-Identifier: Apache-2.0
// Operations on arrays of stored tensor elements.
#pragma once

#include <span>

#include "base/dtype.hpp"

namespace lm::ckpt {

// Converts `n` elements of fp64, fp32, bf16 or fp16 to fp32, bf16 or fp16, rounding to nearest even
// (fp64 through fp32, as PyTorch does); equal types are copied bit for bit. `from` and `to` need no
// alignment.
void convert_elements(const void* from, DType from_type, void* to, DType to_type, i64 n);

// Returns the number of NaNs and infinities: elements whose exponent bits are all set. `dtype` is
// fp32, bf16 or fp16.
i64 count_non_finite(std::span<const std::byte> bytes, DType dtype);

}  // namespace lm::ckpt
