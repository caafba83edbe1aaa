// SPDX-License-Identifier: Apache-2.0
// Transposes matrices of 2- or 4-byte elements in memory.
#pragma once

#include <cstddef>

#include "base/types.hpp"

namespace lm::convert {

// Computes to[col * rows + row] = from[row * stride + col] for `rows` rows and `cols` columns.
// Counts and `stride` are in elements of `size` bytes, 2 or 4; both arrays are aligned to `size`.
void transpose(const std::byte* from, i64 stride, i64 rows, i64 cols, i64 size, std::byte* to);

}  // namespace lm::convert
