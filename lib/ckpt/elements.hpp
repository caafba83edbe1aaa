// SPDX-License-Identifier: Apache-2.0
// Elements from one floating type to another; equal types are copied bit for bit.
#pragma once

#include <span>

#include "base/dtype.hpp"

namespace lm::ckpt {

// `from` and `to` need no alignment. fp32, bf16 and fp16 only; anything else is a bug.
void convert(const void* from, DType from_type, void* to, DType to_type, i64 n);

// NaNs and infinities: all bits of the exponent are set.
i64 count_non_finite(std::span<const std::byte> bytes, DType dtype);

}  // namespace lm::ckpt
