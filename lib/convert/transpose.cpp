// SPDX-License-Identifier: Apache-2.0
#include "convert/transpose.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace lm::convert {
namespace {

// Works in blocks of 32 x 32, which stay in the L1 cache.
template <typename T>
void transpose_elements(const T* from, i64 stride, i64 rows, i64 cols, T* to) {
    constexpr i64 block = 32;
    for (i64 row0 = 0; row0 < rows; row0 += block) {
        for (i64 col0 = 0; col0 < cols; col0 += block) {
            for (i64 col = col0; col < std::min(col0 + block, cols); ++col) {
                for (i64 row = row0; row < std::min(row0 + block, rows); ++row) {
                    to[col * rows + row] = from[row * stride + col];
                }
            }
        }
    }
}

}  // namespace

void transpose(const std::byte* from, i64 stride, i64 rows, i64 cols, i64 size, std::byte* to) {
    LM_CHECK(size == 2 || size == 4, "expected elements of 2 or 4 bytes, got {}", size);
    if (size == 4) {
        transpose_elements(reinterpret_cast<const u32*>(from), stride, rows, cols,
                           reinterpret_cast<u32*>(to));
    } else {
        transpose_elements(reinterpret_cast<const u16*>(from), stride, rows, cols,
                           reinterpret_cast<u16*>(to));
    }
}

}  // namespace lm::convert
