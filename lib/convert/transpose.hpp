// SPDX-License-Identifier: Apache-2.0
// Copies between a row-major matrix and a part of its transpose, in blocks of 32 x 32 that stay in
// the L1 cache.
#pragma once

#include <algorithm>

#include "base/types.hpp"

namespace lm::convert {

// Computes to[col * to_stride + row] = from[row * cols + col].
template <typename T>
void transpose(const T* from, i64 rows, i64 cols, T* to, i64 to_stride) {
    constexpr i64 block = 32;
    for (i64 row0 = 0; row0 < rows; row0 += block) {
        for (i64 col0 = 0; col0 < cols; col0 += block) {
            for (i64 col = col0; col < std::min(col0 + block, cols); ++col) {
                for (i64 row = row0; row < std::min(row0 + block, rows); ++row) {
                    to[col * to_stride + row] = from[row * cols + col];
                }
            }
        }
    }
}

// Computes to[row * cols + col] = from[col * from_stride + row], the inverse of the function above.
template <typename T>
void untranspose(const T* from, i64 from_stride, i64 rows, i64 cols, T* to) {
    constexpr i64 block = 32;
    for (i64 row0 = 0; row0 < rows; row0 += block) {
        for (i64 col0 = 0; col0 < cols; col0 += block) {
            for (i64 row = row0; row < std::min(row0 + block, rows); ++row) {
                for (i64 col = col0; col < std::min(col0 + block, cols); ++col) {
                    to[row * cols + col] = from[col * from_stride + row];
                }
            }
        }
    }
}

}  // namespace lm::convert
