// SPDX-License-Identifier: Apache-2.0
// Matrix products on one thread: small ones directly on their operands, large ones on packed
// copies. Part of all_loops.hpp.
#pragma once

namespace lm::cpu {
namespace {

// ---- small matrix products ---------------------------------------------------------------------

// Computes a tile of c, `rows` rows of `vectors` vectors: c = (accumulate ? c : 0) + a b, summed
// over k_end terms. The accumulators stay in registers during the whole sum. `last` is the number
// of elements of the last vector.
template <int rows, int vectors>
LM_INLINE void product_tile(i64 k_end, const float* a, i64 a_row, i64 a_col, const float* b,
                            i64 ldb, float* c, i64 ldc, bool accumulate, i64 last) {
    Vec sum[rows][vectors];
    const auto lanes = [last](int j) { return j == vectors - 1 ? last : i64{width}; };
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 8
        for (int j = 0; j < vectors; ++j) {
            sum[i][j] = accumulate ? get(c + i * ldc + j * width, lanes(j)) : Vec{};
        }
    }
    for (i64 k = 0; k < k_end; ++k) {
        Vec right[vectors];
#pragma GCC unroll 8
        for (int j = 0; j < vectors; ++j) right[j] = get(b + k * ldb + j * width, lanes(j));
#pragma GCC unroll 8
        for (int i = 0; i < rows; ++i) {
            const Vec left = splat(a[i * a_row + k * a_col]);
#pragma GCC unroll 8
            for (int j = 0; j < vectors; ++j) sum[i][j] = fma(left, right[j], sum[i][j]);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 8
        for (int j = 0; j < vectors; ++j) put(c + i * ldc + j * width, sum[i][j], lanes(j));
    }
}

// Computes all rows of one panel of columns. If `whole` is false, the last vector of a row has only
// `last` elements.
template <int vectors, bool whole>
void product_panel(i64 m, i64 k, const float* a, i64 a_row, i64 a_col, const float* b, i64 ldb,
                   float* c, i64 ldc, bool accumulate, i64 last) {
    const i64 lanes = whole ? i64{width} : last;
    i64 i = 0;
    for (; i + tile_rows <= m; i += tile_rows) {
        product_tile<tile_rows, vectors>(k, a + i * a_row, a_row, a_col, b, ldb, c + i * ldc, ldc,
                                         accumulate, lanes);
    }
    for (; i + 2 <= m; i += 2) {
        product_tile<2, vectors>(k, a + i * a_row, a_row, a_col, b, ldb, c + i * ldc, ldc,
                                 accumulate, lanes);
    }
    if (i < m) {
        product_tile<1, vectors>(k, a + i * a_row, a_row, a_col, b, ldb, c + i * ldc, ldc,
                                 accumulate, lanes);
    }
}

void small_product(i64 m, i64 n, i64 k, const float* a, i64 a_row, i64 a_col, const float* b,
                   i64 ldb, float* c, i64 ldc, bool accumulate) {
    i64 j = 0;
    for (; j + tile_vectors * width <= n; j += tile_vectors * width) {
        product_panel<tile_vectors, true>(m, k, a, a_row, a_col, b + j, ldb, c + j, ldc, accumulate,
                                          width);
    }
    for (; j + width <= n; j += width) {
        product_panel<1, true>(m, k, a, a_row, a_col, b + j, ldb, c + j, ldc, accumulate, width);
    }
    if (j < n) {
        product_panel<1, false>(m, k, a, a_row, a_col, b + j, ldb, c + j, ldc, accumulate, n - j);
    }
}

// These functions transpose `width` vectors (rows) in registers in log2(width) rounds, one for each
// power of two d. In a round, rows a = i and b = i + d exchange lanes: a gives its lanes whose
// number has bit d, b gives its lanes whose number does not have bit d.
template <int d, int... lane>
LM_INLINE void exchange(Vec& a, Vec& b, Lanes<lane...>) {
    const Vec low = __builtin_shufflevector(a, b, ((lane & d) ? lane - d + width : lane)...);
    b = __builtin_shufflevector(a, b, ((lane & d) ? lane + width : lane + d)...);
    a = low;
}

template <int d>
LM_INLINE void exchange_rows(Vec (&v)[width]) {
#pragma GCC unroll 16
    for (int i = 0; i < width; ++i) {
        if ((i & d) == 0) exchange<d>(v[i], v[i + d], AllLanes{});
    }
}

LM_INLINE void transpose_square(Vec (&v)[width]) {
    if constexpr (width > 8) exchange_rows<8>(v);
    if constexpr (width > 4) exchange_rows<4>(v);
    exchange_rows<2>(v);
    exchange_rows<1>(v);
}

template <typename T>
__attribute__((noinline)) void transpose(i64 rows, i64 cols, const T* x, i64 ldx, float factor,
                                         float* y, i64 ldy) {
    i64 r = 0;
    for (; r + width <= rows; r += width) {
        i64 c = 0;
        for (; c + width <= cols; c += width) {
            Vec v[width];
#pragma GCC unroll 16
            for (int i = 0; i < width; ++i) v[i] = load(x + (r + i) * ldx + c) * factor;
            transpose_square(v);
#pragma GCC unroll 16
            for (int i = 0; i < width; ++i) store(y + (c + i) * ldy + r, v[i]);
        }
        for (; c < cols; ++c) {
            for (int i = 0; i < width; ++i) {
                y[c * ldy + r + i] = value(x + (r + i) * ldx + c) * factor;
            }
        }
    }
    for (int i = 0; i < width && r + i < rows; ++i) {
        const T* const row = x + (r + i) * ldx;
        for (i64 c = 0; c < cols; ++c) y[c * ldy + r + i] = value(row + c) * factor;
    }
}

// ---- large matrix products ---------------------------------------------------------------------

// Goto and van de Geijn, "Anatomy of high-performance matrix multiplication" (2008): blocks of a
// and b are packed into strips of tile_rows rows and strip_cols columns, which the inner kernel
// reads sequentially. The loops, outermost first: blocks of pack_depth of k (packs all columns of
// b), blocks of pack_rows rows (packs a), strips of b, strips of a.
constexpr int strip_cols = tile_vectors * width;
constexpr i64 pack_depth = product_depth;  // a strip of a and a strip of b fit into the L1 cache
constexpr i64 pack_rows = product_rows;    // a block of a fits into the L2 cache

// Packs tile_rows rows. Vectors of `width` lanes are stored at stride tile_rows < width: each store
// overwrites the unused lanes of the previous one. The last store writes up to width - tile_rows
// floats beyond the strip, into the next strip or into spare room of product_scratch_floats().
template <typename T>
LM_INLINE void pack_whole_strip(const T* a, i64 a_row, i64 a_col, i64 depth, float* packed) {
    i64 k = 0;
    if constexpr (width >= tile_rows) {
        for (; a_col == 1 && k + width <= depth; k += width) {
            Vec v[width];
#pragma GCC unroll 16
            for (int i = 0; i < width; ++i) v[i] = i < tile_rows ? load(a + i * a_row + k) : Vec{};
            transpose_square(v);
#pragma GCC unroll 16
            for (int i = 0; i < width; ++i) store(packed + (k + i) * tile_rows, v[i]);
        }
    }
    for (; k < depth; ++k) {
        for (int i = 0; i < tile_rows; ++i) {
            packed[k * tile_rows + i] = value(a + i * a_row + k * a_col);
        }
    }
}

// Packs a strip that is partly outside of the operand: only n of its `strip` rows or columns exist,
// and the missing ones become zero. Element (k, i) of the strip is x[k * k_step + i * i_step].
template <typename T>
LM_INLINE void pack_part(const T* x, i64 k_step, i64 i_step, i64 n, i64 strip, i64 depth,
                         float* packed) {
    for (i64 k = 0; k < depth; ++k) {
        for (i64 i = 0; i < strip; ++i) {
            packed[k * strip + i] = i < n ? value(x + k * k_step + i * i_step) : 0.0F;
        }
    }
}

// The number of rows that are copied together when an operand is read across its rows. If rows are
// a multiple of 4 KiB apart, this many fit into one set of an 8-way L1 cache.
constexpr i64 rows_at_once = 8;

// Packs n rows or columns of `depth` elements as packed[strip][k][of_strip]. Element (k, i) is
// x[k * k_step + i * i_step]. If i_step is not 1, turn(x, packed) packs a whole strip.
template <i64 of_strip, typename T, typename Turn>
LM_INLINE void pack(const T* x, i64 k_step, i64 i_step, i64 n, i64 depth, float* packed,
                    Turn turn) {
    const i64 whole = n / of_strip * of_strip;
    if (i_step == 1) {
        for (i64 first = 0; first < depth; first += rows_at_once) {
            const i64 last = depth - first < rows_at_once ? depth : first + rows_at_once;
            for (i64 strip = 0; strip < whole; strip += of_strip) {
                for (i64 k = first; k < last; ++k) {
                    copy_floats(packed + strip * depth + k * of_strip, x + k * k_step + strip,
                                of_strip);
                }
            }
        }
    } else {
        for (i64 strip = 0; strip < whole; strip += of_strip) {
            turn(x + strip * i_step, packed + strip * depth);
        }
    }
    if (whole < n) {
        pack_part(x + whole * i_step, k_step, i_step, n - whole, of_strip, depth,
                  packed + whole * depth);
    }
}

template <typename T>
void pack_a(const Operands& p, i64 row, i64 rows, i64 k_begin, i64 depth, float* packed) {
    const T* const a = static_cast<const T*>(p.a) + row * p.a_row + k_begin * p.a_col;
    pack<tile_rows>(a, p.a_col, p.a_row, rows, depth, packed, [&](const T* x, float* strip) {
        pack_whole_strip(x, p.a_row, p.a_col, depth, strip);
    });
}

template <typename T>
void pack_b(const Operands& p, i64 cols, i64 k_begin, i64 depth, float* packed) {
    const T* const b = static_cast<const T*>(p.b) + k_begin * p.b_row;
    pack<strip_cols>(b, p.b_row, p.b_col, cols, depth, packed, [&](const T* x, float* strip) {
        transpose(strip_cols, depth, x, p.b_col, 1.0F, strip, strip_cols);
    });
}

// c [tile_rows, strip_cols] = (accumulate ? c : 0) + the product of two packed strips.
LM_INLINE void packed_tile(i64 depth, const float* a, const float* b, float* c, i64 ldc,
                           bool accumulate) {
    Vec sum[tile_rows][tile_vectors];
#pragma GCC unroll 8
    for (int i = 0; i < tile_rows; ++i) {
#pragma GCC unroll 8
        for (int j = 0; j < tile_vectors; ++j) sum[i][j] = Vec{};
    }
    for (i64 k = 0; k < depth; ++k) {
        Vec right[tile_vectors];
#pragma GCC unroll 8
        for (int j = 0; j < tile_vectors; ++j) right[j] = load(b + k * strip_cols + j * width);
#pragma GCC unroll 8
        for (int i = 0; i < tile_rows; ++i) {
            const Vec left = splat(a[k * tile_rows + i]);
#pragma GCC unroll 8
            for (int j = 0; j < tile_vectors; ++j) sum[i][j] = fma(left, right[j], sum[i][j]);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < tile_rows; ++i) {
#pragma GCC unroll 8
        for (int j = 0; j < tile_vectors; ++j) {
            float* const at = c + i * ldc + j * width;
            store(at, accumulate ? load(at) + sum[i][j] : sum[i][j]);
        }
    }
}

// Computes a tile that is only partly inside of c: writes the tile to a small array, and copies the
// rows x cols that c has.
LM_INLINE void packed_edge(i64 depth, const float* a, const float* b, float* c, i64 ldc, i64 rows,
                           i64 cols, bool accumulate) {
    float tile[tile_rows * strip_cols];
    packed_tile(depth, a, b, tile, strip_cols, false);
    for (i64 i = 0; i < rows; ++i) {
        for (i64 j = 0; j < cols; ++j) {
            float& at = c[i * ldc + j];
            at = accumulate ? at + tile[i * strip_cols + j] : tile[i * strip_cols + j];
        }
    }
}

// Computes a large product for operands of type T.
// scratch: packed b [strips of p.n][pack_depth][strip_cols], then packed a. The sums over k are
// accumulated in c between blocks of pack_depth, so their order depends on the shape only.
template <typename T>
void product_of(const Operands& p, float* scratch) {
    float* const packed_b = scratch;
    float* const packed_a = scratch + round_up(p.n, strip_cols) * pack_depth;
    for (i64 k = 0; k < p.k; k += pack_depth) {
        const i64 depth = p.k - k < pack_depth ? p.k - k : pack_depth;
        const bool accumulate = p.accumulate || k > 0;
        pack_b<T>(p, p.n, k, depth, packed_b);
        for (i64 row = 0; row < p.m; row += pack_rows) {
            const i64 rows = p.m - row < pack_rows ? p.m - row : pack_rows;
            pack_a<T>(p, row, rows, k, depth, packed_a);
            for (i64 j = 0; j < p.n; j += strip_cols) {
                const float* const b = packed_b + j * depth;
                const i64 cols = p.n - j;
                for (i64 i = 0; i < rows; i += tile_rows) {
                    const float* const a = packed_a + i * depth;
                    float* const c = p.c + (row + i) * p.ldc + j;
                    if (rows - i >= tile_rows && cols >= strip_cols) {
                        packed_tile(depth, a, b, c, p.ldc, accumulate);
                    } else {
                        packed_edge(depth, a, b, c, p.ldc,
                                    rows - i < tile_rows ? rows - i : i64{tile_rows},
                                    cols < strip_cols ? cols : i64{strip_cols}, accumulate);
                    }
                }
            }
        }
    }
}

void product(const Operands& p, float* scratch) {
    if (p.type == DType::bf16) return product_of<Bf16>(p, scratch);
    if (p.type == DType::fp16) return product_of<Fp16>(p, scratch);
    product_of<float>(p, scratch);
}

}  // namespace
}  // namespace lm::cpu
