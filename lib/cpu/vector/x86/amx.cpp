// SPDX-License-Identifier: Apache-2.0
// Products of bf16 pairs in AMX tiles: TDPBF16PS multiplies a tile of 16 rows x 16 pairs by a tile
// of 16 pairs x 16 columns, and adds the product to a tile of 16 x 16 fp32 sums (Intel 64 and IA-32
// Architectures Software Developer's Manual, volume 2; denormals count as zero). Only the code
// between the pragmas is compiled for these instructions.
#include "cpu/vector/pair_kernels.hpp"
#include "cpu/vector/vector_kernels.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#define LM_VECTOR_AVX512
#if defined(__clang__)
#pragma clang attribute push(                                                            \
    __attribute__((                                                                      \
        target("avx512f,avx512dq,avx512bw,avx512vl,avx512bf16,fma,amx-tile,amx-bf16"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,avx512bf16,fma,amx-tile,amx-bf16")
#endif
#include "cpu/vector/all_loops.hpp"

namespace lm::cpu {
namespace {
namespace amx {

constexpr i64 side = 16;  // rows, pairs and columns of a tile
constexpr i64 tile_words = side * side;
constexpr i64 row_bytes = side * 4;
// Rows of a, and columns of b, whose sums are in registers together.
constexpr i64 strip = 2 * side;

// The operand of LDTILECFG, 64 bytes: every tile has 16 rows of 64 bytes.
struct Configuration {
    u8 palette = 1;
    u8 start_row = 0;
    u8 reserved[14] = {};
    u16 bytes[16] = {row_bytes, row_bytes, row_bytes, row_bytes,
                     row_bytes, row_bytes, row_bytes, row_bytes};
    u8 rows[16] = {side, side, side, side, side, side, side, side};
};
static_assert(sizeof(Configuration) == 64);
constexpr Configuration configuration;

// Configures the tiles of this thread until the end of a scope.
class Tiles {
  public:
    LM_INLINE Tiles() { _tile_loadconfig(&configuration); }
    LM_INLINE ~Tiles() { _tile_release(); }
    Tiles(const Tiles&) = delete;
    Tiles& operator=(const Tiles&) = delete;
};

// ---- packing -----------------------------------------------------------------------------------

// Returns pairs (k, i) to (k + 15, i) of a row that is contiguous along k, with zeros beyond its
// end.
LM_INLINE Vec pairs_along(const PairWords& w, i64 k, i64 i) {
    const i64 left = w.depth - 2 * k;
    const u32 lanes = left >= 2 * side ? ~0U : left > 0 ? (1U << left) - 1U : 0;
    return (Vec)_mm512_maskz_loadu_epi16(lanes, w.x + i * w.i_step + 2 * k);
}

// Packs a tile that begins at pair k of row or column i. Only n of the rows or columns exist. If
// `rows` is true, packs rows of a as [row][pair]; otherwise packs columns of b as [pair][column].
template <bool rows>
LM_INLINE void pack_tile(const PairWords& w, i64 k, i64 i, i64 n, float* tile) {
    Vec v[side];
    if (w.k_step == 1) {
#pragma GCC unroll 16
        for (i64 r = 0; r < side; ++r) v[r] = r < n ? pairs_along(w, k, i + r) : Vec{};
        if constexpr (!rows) transpose_square(v);
    } else {
#pragma GCC unroll 16
        for (i64 r = 0; r < side; ++r) {
            v[r] = k + r < w.n_words ? w.across(k + r, i, n < side ? n : side) : Vec{};
        }
        if constexpr (rows) transpose_square(v);
    }
#pragma GCC unroll 16
    for (i64 r = 0; r < side; ++r) store(tile + r * side, v[r]);
}

// Packs an operand as [strip][16 pairs of k][2 tiles][16 x 16 words].
template <bool rows>
void pack_tiles(const Unpacked& u, float* packed) {
    const PairWords w(u);
    const i64 words = (w.n_words + side - 1) / side * side;
    // As in pack(), reads few cache lines of the operand at a time, so that they stay in the L1
    // cache.
    for (i64 k = 0; k < words; k += side) {
        for (i64 i = 0; i < u.n; i += strip) {
            float* const to = packed + i * words + k * strip;
            pack_tile<rows>(w, k, i, u.n - i, to);
            const i64 next = u.n - i > side ? u.n - i - side : 0;
            pack_tile<rows>(w, k, i + side, next, to + tile_words);
        }
    }
}

// ---- products of packed operands ---------------------------------------------------------------

// c [32, 32] = (accumulate ? c : 0) + the product of two packed strips.
LM_INLINE void square(i64 words, const float* a, const float* b, float* c, i64 ldc,
                      bool accumulate) {
    const i64 stride = ldc * 4;
    if (accumulate) {
        _tile_loadd(0, c, stride);
        _tile_loadd(1, c + side, stride);
        _tile_loadd(2, c + side * ldc, stride);
        _tile_loadd(3, c + side * ldc + side, stride);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (i64 k = 0; k < words; k += side) {
        _tile_loadd(4, a + k * strip, row_bytes);
        _tile_loadd(6, b + k * strip, row_bytes);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, b + k * strip + tile_words, row_bytes);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, a + k * strip + tile_words, row_bytes);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, stride);
    _tile_stored(1, c + side, stride);
    _tile_stored(2, c + side * ldc, stride);
    _tile_stored(3, c + side * ldc + side, stride);
}

// Computes a square that is only partly inside of c.
void edge(i64 words, const float* a, const float* b, float* c, i64 ldc, i64 rows, i64 cols,
          bool accumulate) {
    float sums[strip * strip];
    square(words, a, b, sums, strip, false);
    for (i64 i = 0; i < rows; ++i) {
        for_vectors(cols, [&](i64 j, i64 n) LM_BODY {
            const Vec sum = get(sums + i * strip + j, n);
            put(c + i * ldc + j, accumulate ? get(c + i * ldc + j, n) + sum : sum, n);
        });
    }
}

// A strip of b stays in the L1 cache while it is multiplied by all rows of a.
void product(const PackedProduct& p) {
    const Tiles tiles;
    for (i64 j = 0; j < p.n; j += strip) {
        const float* const b = p.b + j * p.words;
        const i64 cols = p.n - j < strip ? p.n - j : strip;
        for (i64 i = 0; i < p.m; i += strip) {
            const float* const a = p.a + i * p.words;
            float* const c = p.c + i * p.ldc + j;
            const i64 rows = p.m - i < strip ? p.m - i : strip;
            if (rows == strip && cols == strip) {
                square(p.words, a, b, c, p.ldc, p.accumulate);
            } else {
                edge(p.words, a, b, c, p.ldc, rows, cols, p.accumulate);
            }
        }
    }
}

// ---- products of attention ---------------------------------------------------------------------

// Copies 16 x 16 pairs whose element (i, k) is at a[i + k * a_col] to tile[i][k].
LM_INLINE void turn_pairs(const u32* a, i64 a_col, u32* tile) {
    Vec v[side];
#pragma GCC unroll 16
    for (i64 k = 0; k < side; ++k) __builtin_memcpy(&v[k], a + k * a_col, sizeof v[k]);
    transpose_square(v);
    __builtin_memcpy(tile, v, sizeof v);
}

// c [16, 16 * tiles] = (accumulate ? c : 0) + a b over n_pairs pairs, a multiple of 16. The tile
// (0, k) of a is at a + k * a_step; its rows are a_row pairs apart.
template <int tiles>
LM_INLINE void tile_row(const u32* a, i64 a_row, i64 a_step, const PairProduct& p, i64 n_pairs,
                        const u32* b, float* c) {
    const i64 c_bytes = p.ldc * 4;
    if (p.accumulate) {
        _tile_loadd(0, c, c_bytes);
        if constexpr (tiles > 1) _tile_loadd(1, c + side, c_bytes);
        if constexpr (tiles > 2) _tile_loadd(2, c + 2 * side, c_bytes);
        if constexpr (tiles > 3) _tile_loadd(3, c + 3 * side, c_bytes);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (i64 k = 0; k < n_pairs; k += side) {
        const u32* const right = b + k * p.ldb;
        _tile_loadd(4, a + k / side * a_step, a_row * 4);
        _tile_loadd(5, right, p.ldb * 4);
        _tile_dpbf16ps(0, 4, 5);
        if constexpr (tiles > 1) {
            _tile_loadd(6, right + side, p.ldb * 4);
            _tile_dpbf16ps(1, 4, 6);
        }
        if constexpr (tiles > 2) {
            _tile_loadd(7, right + 2 * side, p.ldb * 4);
            _tile_dpbf16ps(2, 4, 7);
        }
        if constexpr (tiles > 3) {
            _tile_loadd(5, right + 3 * side, p.ldb * 4);
            _tile_dpbf16ps(3, 4, 5);
        }
    }
    _tile_stored(0, c, c_bytes);
    if constexpr (tiles > 1) _tile_stored(1, c + side, c_bytes);
    if constexpr (tiles > 2) _tile_stored(2, c + 2 * side, c_bytes);
    if constexpr (tiles > 3) _tile_stored(3, c + 3 * side, c_bytes);
}

// Computes 16 rows of c.
LM_INLINE void rows_of_pairs(const u32* a, i64 a_row, i64 a_step, const PairProduct& p, i64 n_pairs,
                             float* c) {
    i64 j = 0;
    for (; j + 4 * side <= p.n; j += 4 * side) {
        tile_row<4>(a, a_row, a_step, p, n_pairs, p.b + j, c + j);
    }
    switch ((p.n - j) / side) {
        case 3:
            return tile_row<3>(a, a_row, a_step, p, n_pairs, p.b + j, c + j);
        case 2:
            return tile_row<2>(a, a_row, a_step, p, n_pairs, p.b + j, c + j);
        case 1:
            return tile_row<1>(a, a_row, a_step, p, n_pairs, p.b + j, c + j);
        default:
            return;
    }
}

constexpr i64 most_turned = 8;  // largest number of tiles of a column-major a in one row of tiles

// Multiplies the first m rows and n_pairs pairs of a, multiples of 16; n_pairs of a column-major a
// is at most 16 * most_turned.
void whole_tiles(const PairProduct& p, i64 m, i64 n_pairs) {
    const Tiles tiles;
    alignas(64) u32 turned[most_turned * tile_words];
    for (i64 i = 0; i < m; i += side) {
        float* const c = p.c + i * p.ldc;
        const u32* const a = p.a + i * p.a_row;
        if (p.a_col == 1) {
            rows_of_pairs(a, p.a_row, side, p, n_pairs, c);
            continue;
        }
        for (i64 k = 0; k < n_pairs; k += side) {
            turn_pairs(a + k * p.a_col, p.a_col, turned + k * side);
        }
        rows_of_pairs(turned, side, tile_words, p, n_pairs, c);
    }
}

// Multiplies the whole tiles of a; the AVX-512 loops do the rest.
void pair_product(const PairProduct& p) {
    const i64 m = p.m / side * side;
    i64 n_pairs = p.n_pairs / side * side;
    if (p.a_col != 1 && n_pairs > most_turned * side) n_pairs = most_turned * side;
    if (m == 0 || n_pairs == 0) return avx512_pair_kernels.product(p);
    whole_tiles(p, m, n_pairs);
    if (n_pairs < p.n_pairs) {
        PairProduct rest = p;
        rest.m = m;
        rest.n_pairs -= n_pairs;
        rest.a += n_pairs * p.a_col;
        rest.b += n_pairs * p.ldb;
        rest.accumulate = true;
        avx512_pair_kernels.product(rest);
    }
    if (m < p.m) {
        PairProduct rest = p;
        rest.m -= m;
        rest.a += m * p.a_row;
        rest.c += m * p.ldc;
        avx512_pair_kernels.product(rest);
    }
}

}  // namespace amx
}  // namespace
}  // namespace lm::cpu

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace lm::cpu {
const PackedKernels amx_kernels = {
    amx::strip,  amx::strip, amx::side, true, amx::pack_tiles<true>, amx::pack_tiles<false>,
    amx::product};
void amx_pair_product(const PairProduct& p) {
    amx::pair_product(p);
}
}  // namespace lm::cpu
#endif
