// SPDX-License-Identifier: Apache-2.0
// The tiles of the result of a matrix product. They depend on the shape only, and one worker
// computes a tile, so that the bits do not depend on the thread count.
#pragma once

#include <algorithm>

#include "cost/cpu_scratch.hpp"
#include "cpu/matmul.hpp"

namespace lm::cpu {

// The number of rows of a tile is a multiple of the rows of a strip of a: 6, or 32 with AMX. The
// number of columns is a multiple of the columns of a strip of b for every instruction set
// (PackedKernels). The last tile of a dimension may be smaller.
constexpr i64 row_granule = 6;
constexpr i64 col_granule = 64;

// A dimension divided into `count` parts of `size`, a multiple of the granule; the last part may be
// smaller.
struct TileCut {
    TileCut(i64 total, i64 target, i64 granule)
        : size(std::min(round_up(ceil_div(total, ceil_div(total, target)), granule), total)),
          count(ceil_div(total, size)),
          last(total - (count - 1) * size) {}
    i64 length(i64 part) const { return part == count - 1 ? last : size; }
    i64 size, count, last;
};

// Tiles have at most two different lengths in each dimension, so at most four shapes.
struct Tiling {
    explicit Tiling(const Product& p, i64 strip_rows = row_granule)
        : rows(p.m, cost::product_tile_rows, strip_rows),
          cols(p.n, cost::product_tile_cols, col_granule) {}
    // Returns the tile in row r and column c of tiles; Tile::values is not set.
    Tile tile(i64 r, i64 c) const {
        return {.row_begin = r * rows.size,
                .row_end = r * rows.size + rows.length(r),
                .col_begin = c * cols.size,
                .col_end = c * cols.size + cols.length(c)};
    }
    TileCut rows, cols;
};

// Element (i, k) of a is a[i * a_row + k * a_col], and element (k, j) of b is b[k * b_row + j *
// b_col].
struct Strides {
    explicit Strides(const Product& p)
        : a_row(p.form == GemmForm::tn ? 1 : p.k),
          a_col(p.form == GemmForm::tn ? p.m : 1),
          b_row(p.form == GemmForm::nt ? 1 : p.n),
          b_col(p.form == GemmForm::nt ? p.k : 1) {}
    i64 a_row, a_col, b_row, b_col;
};

inline const void* element_at(const void* base, i64 offset, DType type) {
    return static_cast<const std::byte*>(base) + offset * size_of(type);
}

}  // namespace lm::cpu
