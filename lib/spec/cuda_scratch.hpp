// SPDX-License-Identifier: Apache-2.0
// Scratch memory of the CUDA backend's operations: what they take from the workspace, and what the
// plan of spec/memory.hpp sets aside.
#pragma once

#include "base/types.hpp"

namespace lm::spec {

// Most partial sums of a reduction of a flat range.
constexpr i64 cuda_sum_blocks = 1024;

// What cuBLASLt may use for one product: its documentation's recommendation for Hopper.
constexpr i64 cuda_product_bytes = i64{32} << 20;

// Sums over rows: blocks of at least 32 rows, at most 128 blocks.
constexpr i64 column_sum_rows(i64 rows) {
    const i64 even = ceil_div(rows, 128);
    return even < 32 ? 32 : even;
}
constexpr i64 column_sum_parts(i64 rows) {
    return ceil_div(rows, column_sum_rows(rows));
}
constexpr i64 column_sum_floats(i64 rows, i64 columns) {
    return column_sum_parts(rows) * columns;
}

// Norm gradients: partial sums of weight and bias, side by side, of at most this many blocks: two
// for each of the 132 multiprocessors of an H100 or H200, which is what their registers hold.
constexpr i64 norm_gradient_parts = 264;
constexpr i64 norm_gradient_floats(i64 columns) {
    return norm_gradient_parts * 2 * columns;
}

}  // namespace lm::spec
