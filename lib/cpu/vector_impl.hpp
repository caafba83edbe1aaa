// SPDX-License-Identifier: Apache-2.0
// The inner loops of vector.hpp over vectors of `width` floats. Included by one source file per
// instruction set, inside a region compiled for it; that file defines LM_VECTOR_AVX512,
// LM_VECTOR_AVX2 or neither. Everything is local to that file.
//
// exp: Cody and Waite's reduction and the polynomial of Cephes' expf: below 1.5 ulp from -87.3 to
// 88.3, zero below (no denormals), saturated above; NaN stays NaN. GELU by tanh is computed as
// x / (1 + exp(-2u)), which does not cancel for negative x: relative error below 1e-6.

namespace lm::cpu {
namespace {

#if defined(LM_VECTOR_AVX512)
constexpr int width = 16;
constexpr int tile_vectors = 4;
#elif defined(LM_VECTOR_AVX2)
constexpr int width = 8;
constexpr int tile_vectors = 2;
#else
constexpr int width = 4;
constexpr int tile_vectors = 2;
#endif
constexpr int tile_rows = 6;

typedef float Vec __attribute__((vector_size(width * 4)));
typedef i32 IntVec __attribute__((vector_size(width * 4)));
typedef u32 BitsVec __attribute__((vector_size(width * 4)));
typedef u16 ShortVec __attribute__((vector_size(width * 2)));
typedef u64 WordVec __attribute__((vector_size(width * 4)));
typedef double DoubleVec __attribute__((vector_size(width * 8)));
typedef float HalfVec __attribute__((vector_size(width * 2)));
typedef double HalfDoubleVec __attribute__((vector_size(width * 4)));

#define LM_INLINE inline __attribute__((always_inline))
#define LM_BODY __attribute__((always_inline))

#if defined(LM_VECTOR_AVX512)
LM_INLINE Vec fma(Vec a, Vec b, Vec c) {
    return (Vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}
LM_INLINE Vec square_root(Vec x) {
    return (Vec)_mm512_maskz_sqrt_ps(0xffff, (__m512)x);
}
LM_INLINE WordVec multiply_words(WordVec a, WordVec b) {  // of the low 32 bits
    return (WordVec)_mm512_maskz_mul_epu32(0xff, (__m512i)a, (__m512i)b);
}
#elif defined(LM_VECTOR_AVX2)
LM_INLINE Vec fma(Vec a, Vec b, Vec c) {
    return (Vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
LM_INLINE Vec square_root(Vec x) {
    return (Vec)_mm256_sqrt_ps((__m256)x);
}
LM_INLINE WordVec multiply_words(WordVec a, WordVec b) {
    return (WordVec)_mm256_mul_epu32((__m256i)a, (__m256i)b);
}
#else
LM_INLINE Vec fma(Vec a, Vec b, Vec c) {
    return a * b + c;
}
LM_INLINE Vec square_root(Vec x) {
    for (int i = 0; i < width; ++i) x[i] = __builtin_sqrtf(x[i]);
    return x;
}
LM_INLINE WordVec multiply_words(WordVec a, WordVec b) {
    return (a & 0xffffffffU) * (b & 0xffffffffU);
}
#endif

template <int... lane>
struct Lanes {};
#if defined(LM_VECTOR_AVX512)
using AllLanes = Lanes<0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15>;
#elif defined(LM_VECTOR_AVX2)
using AllLanes = Lanes<0, 1, 2, 3, 4, 5, 6, 7>;
#else
using AllLanes = Lanes<0, 1, 2, 3>;
#endif

LM_INLINE Vec splat(float x) {
    return x - Vec{};
}
LM_INLINE WordVec word(u64 x) {
    return x - WordVec{};
}
LM_INLINE Vec load(const float* p) {
    Vec v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}
LM_INLINE void store(float* p, Vec v) {
    __builtin_memcpy(p, &v, sizeof v);
}
LM_INLINE Vec load_part(const float* p, i64 n, float rest = 0.0F) {
    Vec v = splat(rest);
    for (i64 i = 0; i < n; ++i) v[i] = p[i];
    return v;
}
LM_INLINE void store_part(float* p, Vec v, i64 n) {
    for (i64 i = 0; i < n; ++i) p[i] = v[i];
}

// ---- 16-bit storage ----------------------------------------------------------------------------

LM_INLINE Vec widen(ShortVec bits, Bf16) {
    return (Vec)(__builtin_convertvector(bits, BitsVec) << 16);
}
// As bf16_from_f32 in base/dtype.cpp: to nearest even, NaN stays a quiet NaN.
LM_INLINE ShortVec narrow(Vec x, Bf16) {
    const BitsVec bits = (BitsVec)x;
    const BitsVec rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
    const BitsVec quiet = (bits >> 16) | 0x40U;
    const BitsVec chosen = x == x ? rounded : quiet;
    return __builtin_convertvector(chosen, ShortVec);
}
#if defined(LM_VECTOR_AVX512)
LM_INLINE Vec widen(ShortVec bits, Fp16) {
    return (Vec)_mm512_maskz_cvtph_ps(0xffff, (__m256i)bits);
}
LM_INLINE ShortVec narrow(Vec x, Fp16) {
    return (ShortVec)_mm512_maskz_cvtps_ph(0xffff, (__m512)x, _MM_FROUND_TO_NEAREST_INT);
}
#elif defined(LM_VECTOR_AVX2)
LM_INLINE Vec widen(ShortVec bits, Fp16) {
    return (Vec)_mm256_cvtph_ps((__m128i)bits);
}
LM_INLINE ShortVec narrow(Vec x, Fp16) {
    return (ShortVec)_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT);
}
#else
LM_INLINE Vec widen(ShortVec bits, Fp16) {
    Vec x;
    for (int i = 0; i < width; ++i) x[i] = f32_from_f16(bits[i]);
    return x;
}
LM_INLINE ShortVec narrow(Vec x, Fp16) {
    ShortVec bits;
    for (int i = 0; i < width; ++i) bits[i] = f16_from_f32(x[i]);
    return bits;
}
#endif

template <typename Half>
LM_INLINE Vec load(const Half* p) {
    ShortVec bits;
    __builtin_memcpy(&bits, p, sizeof bits);
    return widen(bits, Half{});
}
template <typename Half>
LM_INLINE Vec load_part(const Half* p, i64 n) {
    u16 bits[width] = {};
    __builtin_memcpy(bits, p, static_cast<size_t>(n) * sizeof(Half));
    return load(reinterpret_cast<const Half*>(bits));
}
// One element, of any storage.
LM_INLINE float value(const float* p) {
    return *p;
}
template <typename Half>
LM_INLINE float value(const Half* p) {
    return load_part(p, 1)[0];
}
// n floats from any storage; n is a constant.
template <typename T>
LM_INLINE void copy_floats(float* y, const T* x, i64 n) {
    i64 i = 0;
    for (; i + width <= n; i += width) store(y + i, load(x + i));
    if (i < n) store_part(y + i, load_part(x + i, n - i), n - i);
}

LM_INLINE Vec larger(Vec a, Vec b) {  // NaN in b stays
    return a > b ? a : b;
}
LM_INLINE float horizontal_max(Vec v) {
    float most = v[0];
    for (int i = 1; i < width; ++i) most = v[i] < most ? most : v[i];
    return most;
}
LM_INLINE float horizontal_sum(Vec v) {
    float part[width];
    __builtin_memcpy(part, &v, sizeof v);
    for (int stride = width / 2; stride > 0; stride /= 2) {
        for (int i = 0; i < stride; ++i) part[i] += part[i + stride];
    }
    return part[0];
}
LM_INLINE double horizontal_sum(HalfDoubleVec v) {
    double part[width / 2];
    __builtin_memcpy(part, &v, sizeof v);
    for (int stride = width / 4; stride > 0; stride /= 2) {
        for (int i = 0; i < stride; ++i) part[i] += part[i + stride];
    }
    return part[0];
}
LM_INLINE HalfDoubleVec load_double(const float* p) {
    HalfVec v;
    __builtin_memcpy(&v, p, sizeof v);
    return __builtin_convertvector(v, HalfDoubleVec);
}

LM_INLINE Vec exponential(Vec x) {
    const Vec lowest = splat(-87.3365F);
    const Vec highest = splat(88.3762F);
    const Vec magic = splat(12582912.0F);  // 1.5 * 2^23: rounds to an integer in the low bits
    Vec z = x < lowest ? lowest : x;
    z = z > highest ? highest : z;
    const Vec shifted = fma(z, splat(1.44269504088896341F), magic);
    const Vec n = shifted - magic;
    Vec r = fma(n, splat(-0.693359375F), z);
    r = fma(n, splat(2.12194440e-4F), r);
    Vec p = splat(1.9875691500e-4F);
    p = fma(p, r, splat(1.3981999507e-3F));
    p = fma(p, r, splat(8.3334519073e-3F));
    p = fma(p, r, splat(4.1665795894e-2F));
    p = fma(p, r, splat(1.6666665459e-1F));
    p = fma(p, r, splat(5.0000001201e-1F));
    p = fma(p, r * r, r) + 1.0F;
    const Vec scaled = (Vec)((IntVec)p + ((IntVec)shifted << 23));
    const Vec flushed = x < lowest ? splat(0.0F) : scaled;
    return x == x ? flushed : x;
}

// Calls body(offset, n) for full vectors (n == width, a constant to the compiler) and the rest.
template <typename Body>
LM_INLINE void for_vectors(i64 n, Body&& body) {
    i64 i = 0;
    for (; i + width <= n; i += width) body(i, i64{width});
    if (i < n) body(i, n - i);
}
LM_INLINE Vec get(const float* p, i64 n, float rest = 0.0F) {
    return n == width ? load(p) : load_part(p, n, rest);
}
LM_INLINE void put(float* p, Vec v, i64 n) {
    if (n == width) {
        store(p, v);
    } else {
        store_part(p, v, n);
    }
}

// ---- small matrix products ---------------------------------------------------------------------

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

// All rows of one column panel.
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

// Transposes `width` vectors in registers: log2(width) rounds in which rows i and i + d exchange
// the lanes whose number has, or lacks, bit d.
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

// Goto and van de Geijn, "Anatomy of high-performance matrix multiplication" (2008): pieces of a
// and b are packed into strips of tile_rows and strip_cols, which the inner kernel reads in order.
constexpr int strip_cols = tile_vectors * width;
constexpr i64 pack_depth = product_depth;  // a strip of b and one of a fit the first cache
constexpr i64 pack_rows = product_rows;    // a piece of a fits the second cache

// Whole vectors at stride tile_rows: each store overwrites the surplus lanes of the one before, and
// the last one's fall on what comes next in `packed`.
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

// A strip that sticks out of the operand: what is missing is zero. Element (k, i) of the strip is
// at x[k * k_step + i * i_step].
template <typename T>
LM_INLINE void pack_part(const T* x, i64 k_step, i64 i_step, i64 n, i64 strip, i64 depth,
                         float* packed) {
    for (i64 k = 0; k < depth; ++k) {
        for (i64 i = 0; i < strip; ++i) {
            packed[k * strip + i] = i < n ? value(x + k * k_step + i * i_step) : 0.0F;
        }
    }
}

// Rows that are walked together where an operand is read across its rows: few enough to stay in one
// set of the first cache when they lie a multiple of 4 KiB apart.
constexpr i64 rows_at_once = 8;

// packed[strip][k][tile_rows]
template <typename T>
void pack_a(const Operands& p, i64 row, i64 rows, i64 k_begin, i64 depth, float* packed) {
    const T* const a = static_cast<const T*>(p.a) + row * p.a_row + k_begin * p.a_col;
    const i64 whole = rows / tile_rows * tile_rows;
    if (p.a_row == 1) {
        for (i64 first = 0; first < depth; first += rows_at_once) {
            const i64 last = depth - first < rows_at_once ? depth : first + rows_at_once;
            for (i64 strip = 0; strip < whole; strip += tile_rows) {
                for (i64 k = first; k < last; ++k) {
                    copy_floats(packed + strip * depth + k * tile_rows, a + k * p.a_col + strip,
                                tile_rows);
                }
            }
        }
    } else {
        for (i64 strip = 0; strip < whole; strip += tile_rows) {
            pack_whole_strip(a + strip * p.a_row, p.a_row, p.a_col, depth, packed + strip * depth);
        }
    }
    if (whole < rows) {
        pack_part(a + whole * p.a_row, p.a_col, p.a_row, rows - whole, tile_rows, depth,
                  packed + whole * depth);
    }
}

// packed[strip][k][strip_cols]
template <typename T>
void pack_b(const Operands& p, i64 cols, i64 k_begin, i64 depth, float* packed) {
    const T* const b = static_cast<const T*>(p.b) + k_begin * p.b_row;
    const i64 whole = cols / strip_cols * strip_cols;
    if (p.b_col == 1) {
        for (i64 first = 0; first < depth; first += rows_at_once) {
            const i64 last = depth - first < rows_at_once ? depth : first + rows_at_once;
            for (i64 strip = 0; strip < whole; strip += strip_cols) {
                for (i64 k = first; k < last; ++k) {
                    copy_floats(packed + strip * depth + k * strip_cols, b + k * p.b_row + strip,
                                strip_cols);
                }
            }
        }
    } else {
        for (i64 strip = 0; strip < whole; strip += strip_cols) {
            transpose(strip_cols, depth, b + strip * p.b_col, p.b_col, 1.0F, packed + strip * depth,
                      strip_cols);
        }
    }
    if (whole < cols) {
        pack_part(b + whole * p.b_col, p.b_row, p.b_col, cols - whole, strip_cols, depth,
                  packed + whole * depth);
    }
}

// c[tile_rows, strip_cols] += packed strips.
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

// A tile that sticks out of c goes through a small copy.
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

template <typename T>
void product_of(const Operands& p, float* scratch) {
    float* const packed_b = scratch;
    float* const packed_a = scratch + round_up(p.cols, strip_cols) * pack_depth;
    for (i64 k = 0; k < p.depth; k += pack_depth) {
        const i64 depth = p.depth - k < pack_depth ? p.depth - k : pack_depth;
        const bool accumulate = p.accumulate || k > 0;
        pack_b<T>(p, p.cols, k, depth, packed_b);
        for (i64 row = 0; row < p.rows; row += pack_rows) {
            const i64 rows = p.rows - row < pack_rows ? p.rows - row : pack_rows;
            pack_a<T>(p, row, rows, k, depth, packed_a);
            for (i64 j = 0; j < p.cols; j += strip_cols) {
                const float* const b = packed_b + j * depth;
                const i64 cols = p.cols - j;
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

// ---- softmax of attention ----------------------------------------------------------------------

LM_INLINE Vec iota() {
    Vec v;
    for (int i = 0; i < width; ++i) v[i] = static_cast<float>(i);
    return v;
}

LM_INLINE void add_slope(float* x, i64 n, float slope, float first_index) {
    if (slope == 0.0F) return;
    for_vectors(n, [&](i64 i, i64 lanes) LM_BODY {
        const Vec index = iota() + (first_index + static_cast<float>(i));
        put(x + i, fma(index, splat(slope), get(x + i, lanes)), lanes);
    });
}

LM_INLINE void fill_outside(float* x, i64 n, i64 begin, i64 end, float value) {
    for (i64 i = 0; i < begin; ++i) x[i] = value;
    for (i64 i = end; i < n; ++i) x[i] = value;
}

constexpr float minus_infinity = -__builtin_inff();

float online_softmax(float* scores, i64 n, i64 begin, i64 end, float slope, float first_index,
                     float* max, float* sum) {
    if (begin >= end) {
        for (i64 i = 0; i < n; ++i) scores[i] = 0.0F;
        return 1.0F;
    }
    add_slope(scores, n, slope, first_index);
    fill_outside(scores, n, begin, end, minus_infinity);
    Vec most = splat(minus_infinity);
    for_vectors(n, [&](i64 i, i64 lanes)
                       LM_BODY { most = larger(most, get(scores + i, lanes, minus_infinity)); });
    const float block_max = horizontal_max(most);
    const float new_max = block_max < *max ? *max : block_max;
    Vec total{};
    for_vectors(n, [&](i64 i, i64 lanes) LM_BODY {
        const Vec p = exponential(get(scores + i, lanes, minus_infinity) - new_max);
        total += p;
        put(scores + i, p, lanes);
    });
    const float rescale = exponential(splat(*max - new_max))[0];
    *sum = *sum * rescale + horizontal_sum(total);
    *max = new_max;
    return rescale;
}

void softmax_again(float* p, i64 n, i64 begin, i64 end, float slope, float first_index, float lse) {
    add_slope(p, n, slope, first_index);
    for_vectors(n, [&](i64 i, i64 lanes)
                       LM_BODY { put(p + i, exponential(get(p + i, lanes) - lse), lanes); });
    fill_outside(p, n, begin, end, 0.0F);
}

void softmax_backward(float* p, float* dp, const float* factors, float delta, i64 n) {
    for_vectors(n, [&](i64 i, i64 lanes) LM_BODY {
        const Vec probability = get(p + i, lanes);
        Vec gradient = get(dp + i, lanes);
        if (factors) {
            const Vec factor = get(factors + i, lanes);
            gradient = gradient * factor;
            put(p + i, probability * factor, lanes);
        }
        put(dp + i, probability * (gradient - delta), lanes);
    });
}

// ---- element-wise ------------------------------------------------------------------------------

void scale(float* x, float factor, i64 n) {
    for_vectors(n,
                [&](i64 i, i64 lanes) LM_BODY { put(x + i, get(x + i, lanes) * factor, lanes); });
}

void multiply(float* x, const float* factors, i64 n) {
    for_vectors(n, [&](i64 i, i64 lanes)
                       LM_BODY { put(x + i, get(x + i, lanes) * get(factors + i, lanes), lanes); });
}

void add(float* x, const float* y, i64 n) {
    for_vectors(n, [&](i64 i, i64 lanes)
                       LM_BODY { put(x + i, get(x + i, lanes) + get(y + i, lanes), lanes); });
}

void scaled_copy(float* y, const float* x, float factor, i64 n) {
    for_vectors(n,
                [&](i64 i, i64 lanes) LM_BODY { put(y + i, get(x + i, lanes) * factor, lanes); });
}

double dot(const float* x, const float* y, i64 n) {
    constexpr i64 half = width / 2;
    HalfDoubleVec sum0{};
    HalfDoubleVec sum1{};
    HalfDoubleVec sum2{};
    HalfDoubleVec sum3{};
    i64 i = 0;
    for (; i + 4 * half <= n; i += 4 * half) {
        sum0 += load_double(x + i) * load_double(y + i);
        sum1 += load_double(x + i + half) * load_double(y + i + half);
        sum2 += load_double(x + i + 2 * half) * load_double(y + i + 2 * half);
        sum3 += load_double(x + i + 3 * half) * load_double(y + i + 3 * half);
    }
    double sum = horizontal_sum((sum0 + sum1) + (sum2 + sum3));
    for (; i < n; ++i) sum += static_cast<double>(x[i]) * y[i];
    return sum;
}

// gelu(x) = x s with s = 1 / (1 + e), e = exp(-2u), u = sqrt(2/pi) (x + 0.044715 x^3).
LM_INLINE Vec gelu_exponential(Vec x) {
    return exponential(x * fma(x * x, splat(-0.0713548162726F), splat(-1.59576912161F)));
}

void gelu_tanh(float* pre, const float* bias, float* y, i64 n) {
    for_vectors(n, [&](i64 i, i64 lanes) LM_BODY {
        Vec x = get(pre + i, lanes);
        if (bias) {
            x += get(bias + i, lanes);
            put(pre + i, x, lanes);
        }
        put(y + i, x / (1.0F + gelu_exponential(x)), lanes);
    });
}

// gelu' = s + x s (1 - s) 2u', with 1 - s = e s, which does not cancel.
void gelu_tanh_backward(const float* pre, float* dx, i64 n) {
    for_vectors(n, [&](i64 i, i64 lanes) LM_BODY {
        const Vec x = get(pre + i, lanes);
        const Vec e = gelu_exponential(x);
        const Vec s = 1.0F / (1.0F + e);
        const Vec slope = fma(x * x, splat(0.2140644488178F), splat(1.59576912161F));
        const Vec derivative = fma(x * slope, e * s * s, s);
        put(dx + i, get(dx + i, lanes) * derivative, lanes);
    });
}

LM_INLINE Vec sigmoid(Vec x) {
    return 1.0F / (1.0F + exponential(-x));
}

void swiglu(const float* gate, const float* up, float* y, i64 n) {
    for_vectors(n, [&](i64 i, i64 lanes) LM_BODY {
        const Vec x = get(gate + i, lanes);
        put(y + i, x * sigmoid(x) * get(up + i, lanes), lanes);
    });
}

// silu' = s (1 + x (1 - s)), and 1 - sigmoid(x) = sigmoid(-x), which does not cancel.
void swiglu_backward(const float* gate, const float* up, const float* dy, float* dgate, float* dup,
                     i64 n) {
    for_vectors(n, [&](i64 i, i64 lanes) LM_BODY {
        const Vec x = get(gate + i, lanes);
        const Vec s = sigmoid(x);
        const Vec d = get(dy + i, lanes);
        const Vec slope = s * fma(x, sigmoid(-x), splat(1.0F));
        put(dgate + i, d * get(up + i, lanes) * slope, lanes);
        put(dup + i, d * x * s, lanes);
    });
}

void rotate(float* a, float* b, const float* cosines, const float* sines, float sign, i64 n) {
    for_vectors(n, [&](i64 i, i64 lanes) LM_BODY {
        const Vec x = get(a + i, lanes);
        const Vec y = get(b + i, lanes);
        const Vec cosine = get(cosines + i, lanes);
        const Vec sine = get(sines + i, lanes) * sign;
        put(a + i, x * cosine - y * sine, lanes);
        put(b + i, y * cosine + x * sine, lanes);
    });
}

template <typename Half>
void widen_row(float* y, const Half* x, i64 n) {
    copy_floats(y, x, n);
}

template <typename Half>
void narrow_row(Half* y, const float* x, i64 n) {
    for_vectors(n, [&](i64 i, i64 lanes) LM_BODY {
        const ShortVec bits = narrow(get(x + i, lanes), Half{});
        __builtin_memcpy(y + i, &bits, static_cast<size_t>(lanes) * sizeof(Half));
    });
}

// ---- norms -------------------------------------------------------------------------------------

LM_INLINE Vec row_value(const NormRow& row, i64 i, i64 lanes) {
    if (!row.branch) return get(row.residual + i, lanes);
    Vec value = get(row.branch + i, lanes);
    if (row.factors) value *= get(row.factors + i, lanes);
    return row.residual ? get(row.residual + i, lanes) + value : value;
}

void norm_row(const NormRow& row, i64 n) {
    Vec total{};
    for_vectors(n, [&](i64 i, i64 lanes) LM_BODY {
        const Vec value = row_value(row, i, lanes);
        put(row.sum + i, value, lanes);
        total += value;
    });
    if (!row.y) return;
    const auto count = static_cast<float>(n);
    const float mean = row.mean ? horizontal_sum(total) / count : 0.0F;
    Vec square{};
    for_vectors(n, [&](i64 i, i64 lanes) LM_BODY {
        const Vec centred = get(row.sum + i, lanes, mean) - mean;
        square = fma(centred, centred, square);
    });
    const float rstd = 1.0F / __builtin_sqrtf(horizontal_sum(square) / count + row.eps);
    for_vectors(n, [&](i64 i, i64 lanes) LM_BODY {
        const Vec scaled = (get(row.sum + i, lanes) - mean) * rstd * get(row.weight + i, lanes);
        put(row.y + i, row.bias ? scaled + get(row.bias + i, lanes) : scaled, lanes);
    });
    if (row.mean) *row.mean = mean;
    *row.rstd = rstd;
}

void norm_backward_row(const NormBackwardRow& row, i64 n) {
    Vec sum_g{};
    Vec sum_gx{};
    for_vectors(n, [&](i64 i, i64 lanes) LM_BODY {
        const Vec dy = get(row.dy + i, lanes);
        const Vec xhat = (get(row.sum + i, lanes) - row.mean) * row.rstd;
        const Vec g = dy * get(row.weight + i, lanes);
        sum_g += g;
        sum_gx = fma(g, xhat, sum_gx);
        put(row.dweight + i, fma(dy, xhat, get(row.dweight + i, lanes)), lanes);
        if (row.dbias) put(row.dbias + i, get(row.dbias + i, lanes) + dy, lanes);
    });
    const auto count = static_cast<float>(n);
    const float mean_g = row.centred ? horizontal_sum(sum_g) / count : 0.0F;
    const float mean_gx = horizontal_sum(sum_gx) / count;
    for_vectors(n, [&](i64 i, i64 lanes) LM_BODY {
        const Vec xhat = (get(row.sum + i, lanes) - row.mean) * row.rstd;
        const Vec g = get(row.dy + i, lanes) * get(row.weight + i, lanes);
        Vec dsum = row.rstd * (g - mean_g - xhat * mean_gx);
        if (row.dsum_in) dsum += get(row.dsum_in + i, lanes);
        put(row.dsum + i, dsum, lanes);
        if (!row.dbranch) return;
        put(row.dbranch + i, row.factors ? dsum * get(row.factors + i, lanes) : dsum, lanes);
    });
}

// ---- cross-entropy -----------------------------------------------------------------------------

// One piece of a row, which stays in the first cache between the two passes; the online rescaling
// of Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018).
void online_sum(const float* x, i64 n, float* max, double* sum) {
    Vec most = splat(*max);
    for_vectors(n, [&](i64 i, i64 lanes)
                       LM_BODY { most = larger(most, get(x + i, lanes, minus_infinity)); });
    const float new_max = horizontal_max(most);
    Vec total{};
    for_vectors(n, [&](i64 i, i64 lanes) LM_BODY {
        total += exponential(get(x + i, lanes, minus_infinity) - new_max);
    });
    const float rescale = exponential(splat(*max - new_max))[0];
    *sum = *sum * (*sum == 0 ? 0.0F : rescale) + horizontal_sum(total);
    *max = new_max;
}

void softmax_gradient(float* x, i64 n, float max, float share) {
    for_vectors(n, [&](i64 i, i64 lanes) LM_BODY {
        put(x + i, share * exponential(get(x + i, lanes) - max), lanes);
    });
}

// ---- optimizer ---------------------------------------------------------------------------------

void adamw(const AdamWStep& step, float* master, float* weight, const float* grad, float* m,
           float* v, i64 n) {
    for_vectors(n, [&](i64 i, i64 lanes) LM_BODY {
        const Vec g = get(grad + i, lanes) * step.grad_scale;
        const Vec first = step.beta1 * get(m + i, lanes) + step.one_minus_beta1 * g;
        const Vec second = step.beta2 * get(v + i, lanes) + step.one_minus_beta2 * (g * g);
        const Vec p = get(master + i, lanes);
        const Vec direction =
            first * step.correct1 / (square_root(second * step.correct2) + step.eps);
        const Vec updated = p - step.lr * (direction + step.weight_decay * p);
        put(m + i, first, lanes);
        put(v + i, second, lanes);
        put(master + i, updated, lanes);
        if (weight) put(weight + i, updated, lanes);
    });
}

// ---- dropout -----------------------------------------------------------------------------------

// Blocks first .. first + n - 1 of Philox4x32-10 as 16-bit numbers in element order; one block per
// 64-bit lane, whose high halves hold rubbish that multiply_words ignores.
void philox_numbers(u64 key, u64 sample, u64 first, i64 n, u16* numbers) {
    constexpr i64 lanes = width / 2;
    for (i64 block = 0; block < n; block += lanes) {
        WordVec counter;
        for (i64 i = 0; i < lanes; ++i) counter[i] = first + static_cast<u64>(block + i);
        WordVec c0 = counter;
        WordVec c1 = counter >> 32;
        WordVec c2 = word(sample & 0xffffffffU);
        WordVec c3 = word(sample >> 32);
        u32 k0 = static_cast<u32>(key);
        u32 k1 = static_cast<u32>(key >> 32);
        for (int round = 0; round < 10; ++round) {
            const WordVec p0 = multiply_words(c0, word(0xD2511F53U));
            const WordVec p1 = multiply_words(c2, word(0xCD9E8D57U));
            c0 = (p1 >> 32) ^ c1 ^ word(k0);
            c1 = p1;
            c2 = (p0 >> 32) ^ c3 ^ word(k1);
            c3 = p0;
            k0 += 0x9E3779B9U;
            k1 += 0xBB67AE85U;
        }
        const WordVec low = (c0 & 0xffffffffU) | (c1 << 32);
        const WordVec high = (c2 & 0xffffffffU) | (c3 << 32);
        for (i64 i = 0; i < lanes; ++i) {
            const u64 pair[2] = {low[i], high[i]};
            __builtin_memcpy(numbers + (block + i) * 8, pair, sizeof pair);
        }
    }
}

void dropout_factors(u64 key, u64 sample, u64 first, u32 threshold, float scale, float* factors,
                     i64 n) {
    constexpr i64 blocks_at_once = 64;
    u16 numbers[(blocks_at_once + width) * 8];
    while (n > 0) {
        const auto skip = static_cast<i64>(first % 8);
        const i64 most = blocks_at_once * 8 - skip;
        const i64 count = n < most ? n : most;
        philox_numbers(key, sample, first / 8, ceil_div(skip + count, 8), numbers);
        for (i64 i = 0; i < count; ++i) factors[i] = numbers[skip + i] >= threshold ? scale : 0.0F;
        factors += count;
        first += static_cast<u64>(count);
        n -= count;
    }
}

constexpr VectorKernels kernels_of(const char* name) {
    return {name,
            small_product,
            product,
            transpose<float>,
            online_softmax,
            softmax_again,
            softmax_backward,
            scale,
            multiply,
            add,
            scaled_copy,
            dot,
            gelu_tanh,
            gelu_tanh_backward,
            swiglu,
            swiglu_backward,
            rotate,
            widen_row<Bf16>,
            widen_row<Fp16>,
            narrow_row<Bf16>,
            narrow_row<Fp16>,
            norm_row,
            norm_backward_row,
            online_sum,
            softmax_gradient,
            adamw,
            dropout_factors};
}

}  // namespace
}  // namespace lm::cpu
