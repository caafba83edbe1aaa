// SPDX-License-Identifier: Apache-2.0
// Packing of the operands of a large matrix product, and the product of packed operands. Part of
// all_loops.hpp.
//
// Goto and van de Geijn, "Anatomy of high-performance matrix multiplication" (2008): blocks of a
// and b are packed into strips of tile_rows rows and strip_cols columns, which the inner kernel
// reads sequentially.
#pragma once

namespace lm::cpu {
namespace {

// The tile of c in registers. With AVX-512, 12 x 2 vectors instead of the 6 x 4 of small products:
// a strip of b, which each tile reads again, then has 32 KiB instead of 64 and nearly fits into the
// L1 cache. On Zen 4 both are equally fast.
#if defined(LM_VECTOR_AVX512)
constexpr int packed_rows = 12;
constexpr int packed_vectors = 2;
#else
constexpr int packed_rows = tile_rows;
constexpr int packed_vectors = tile_vectors;
#endif
constexpr int strip_cols = packed_vectors * width;
constexpr i64 pack_rows = 96;  // rows of a packed block of a that fit into the L2 cache
static_assert(pack_rows % packed_rows == 0);

// ---- words -------------------------------------------------------------------------------------

// The words of an operand whose elements become fp32. Word (k, i) is x[k * k_step + i * i_step].
template <typename T>
struct SingleWords {
    static constexpr bool in_memory = sizeof(T) == 4;  // words are copied, not converted
    explicit SingleWords(const Unpacked& u)
        : x(static_cast<const T*>(u.x)), k_step(u.k_step), i_step(u.i_step), n_words(u.depth) {}
    // Returns words (k, i) to (k, i + n - 1), for i_step 1.
    LM_INLINE Vec across(i64 k, i64 i, i64 n) const {
        const T* const from = x + k * k_step + i;
        return n == width ? load(from) : load_part(from, n);
    }
    // Returns words (k, i), (k + 1, i), ... in the lanes of V, for k_step 1.
    template <typename V>
    LM_INLINE V along(i64 k, i64 i) const {
        if constexpr (!in_memory) {
            return load(x + i * i_step + k);
        } else {
            V v;
            __builtin_memcpy(&v, x + i * i_step + k, sizeof v);
            return v;
        }
    }
    LM_INLINE float word(i64 k, i64 i) const { return value(x + k * k_step + i * i_step); }
    i64 whole_words() const { return n_words; }

    const T* x;
    i64 k_step, i_step, n_words;
};

// The words of a bf16 operand in pairs: word (k, i) has element (2k, i) in its low half and element
// (2k + 1, i) in its high half. If the depth is odd, the high half of the last pair is zero.
struct PairWords {
    static constexpr bool in_memory = true;
    explicit PairWords(const Unpacked& u)
        : x(static_cast<const Bf16*>(u.x)),
          k_step(u.k_step),
          i_step(u.i_step),
          depth(u.depth),
          n_words(ceil_div(u.depth, 2)) {}
    LM_INLINE Vec across(i64 k, i64 i, i64 n) const {
        const Bf16* const from = x + 2 * k * k_step + i;
        const BitsVec low = (BitsVec)(n == width ? load(from) : load_part(from, n)) >> 16;
        if (2 * k + 1 == depth) return (Vec)low;
        const Bf16* const next = from + k_step;
        return (Vec)(low | (BitsVec)(n == width ? load(next) : load_part(next, n)));
    }
    template <typename V>
    LM_INLINE V along(i64 k, i64 i) const {
        V v;
        __builtin_memcpy(&v, x + i * i_step + 2 * k, sizeof v);
        return v;
    }
    LM_INLINE float word(i64 k, i64 i) const {
        u16 pair[2] = {};
        __builtin_memcpy(pair, x + 2 * k * k_step + i * i_step, 2);
        if (2 * k + 1 < depth) {
            __builtin_memcpy(pair + 1, x + (2 * k + 1) * k_step + i * i_step, 2);
        }
        float bits;
        __builtin_memcpy(&bits, pair, sizeof bits);
        return bits;
    }
    i64 whole_words() const { return depth / 2; }

    const Bf16* x;
    i64 k_step, i_step, depth, n_words;
};

// ---- packing -----------------------------------------------------------------------------------

// Transposes a block in registers: `rows` rows from row `first`, each with as many words from word
// k as V has lanes. If V has more than `rows` lanes, each store also overwrites the place of the
// next k, which the next store fills. At the end of the strip it stores only `rows` lanes, because
// another worker may be packing the next strip.
template <i64 of_strip, i64 rows, typename V, typename Words>
LM_INLINE void turn_block(const Words& w, i64 k, i64 first, float* packed, bool at_end) {
    constexpr int n = sizeof(V) / 4;
    V v[n];
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) v[i] = i < rows ? w.template along<V>(k, first + i) : V{};
    transpose_square(v);
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) {
        if (rows == n || i * rows + n <= n * rows || !at_end) {
            __builtin_memcpy(packed + i * of_strip, &v[i], sizeof v[i]);
        } else {
            __builtin_memcpy(packed + i * of_strip, &v[i], rows * 4);
        }
    }
}

// Packs a whole strip of an operand that is contiguous along k.
template <i64 of_strip, typename Words>
LM_INLINE void turn_strip(const Words& w, i64 first, float* packed) {
    // Half vectors, if they have a lane for each row, need fewer exchanges.
    constexpr bool half = Words::in_memory && of_strip <= width / 2;
    using V = std::conditional_t<half, HalfVec, Vec>;
    constexpr i64 n = sizeof(V) / 4;
    constexpr i64 rows = of_strip < n ? of_strip : n;
    constexpr i64 turned = of_strip / rows * rows;
    const i64 whole = w.whole_words() / n * n;
    for (i64 r = 0; r < turned; r += rows) {
        for (i64 k = 0; k < whole; k += n) {
            turn_block<of_strip, rows, V>(w, k, first + r, packed + k * of_strip + r,
                                          k + 2 * n > w.n_words);
        }
    }
    for (i64 k = turned < of_strip ? 0 : whole; k < w.n_words; ++k) {
        for (i64 r = k < whole ? turned : 0; r < of_strip; ++r) {
            packed[k * of_strip + r] = w.word(k, first + r);
        }
    }
}

// Packs a strip that is partly outside of the operand. Only n of its rows or columns exist; the
// missing rows or columns become zero.
template <i64 of_strip, typename Words>
LM_INLINE void pack_part(const Words& w, i64 first, i64 n, float* packed) {
    for (i64 k = 0; k < w.n_words; ++k) {
        for (i64 i = 0; i < of_strip; ++i) {
            packed[k * of_strip + i] = i < n ? w.word(k, first + i) : 0.0F;
        }
    }
}

// The number of words along k that are copied together when an operand is read across its rows. If
// rows are a multiple of 4 KiB apart, the cache lines of 8 rows fit into one set of an 8-way L1
// cache.
constexpr i64 words_at_once = 8;

// Packs n rows or columns as packed[strip][word][of_strip].
template <i64 of_strip, typename Words>
LM_INLINE void pack(const Words& w, i64 n, float* packed) {
    const i64 whole = n / of_strip * of_strip;
    if (w.i_step == 1) {
        for (i64 begin = 0; begin < w.n_words; begin += words_at_once) {
            const i64 end = w.n_words - begin < words_at_once ? w.n_words : begin + words_at_once;
            for (i64 strip = 0; strip < whole; strip += of_strip) {
                for (i64 k = begin; k < end; ++k) {
                    float* const to = packed + strip * w.n_words + k * of_strip;
                    for_vectors(of_strip, [&](i64 i, i64 lanes) LM_BODY {
                        put(to + i, w.across(k, strip + i, lanes), lanes);
                    });
                }
            }
        }
    } else {
        for (i64 strip = 0; strip < whole; strip += of_strip) {
            turn_strip<of_strip>(w, strip, packed + strip * w.n_words);
        }
    }
    if (whole < n) pack_part<of_strip>(w, whole, n - whole, packed + whole * w.n_words);
}

template <i64 of_strip>
void pack_operand(const Unpacked& u, float* packed) {
    if (u.type == DType::bf16) {
#if defined(LM_VECTOR_BF16)
        pack<of_strip>(PairWords(u), u.n, packed);
#else
        pack<of_strip>(SingleWords<Bf16>(u), u.n, packed);
#endif
    } else if (u.type == DType::fp16) {
        pack<of_strip>(SingleWords<Fp16>(u), u.n, packed);
    } else {
        pack<of_strip>(SingleWords<float>(u), u.n, packed);
    }
}

// ---- products of packed operands ---------------------------------------------------------------

// Adds the product of two words to an fp32 sum.
struct MultiplySingles {
    LM_INLINE Vec operator()(Vec a, Vec b, Vec sum) const { return fma(a, b, sum); }
};
#if defined(LM_VECTOR_BF16)
struct MultiplyPairs {
    LM_INLINE Vec operator()(Vec a, Vec b, Vec sum) const {
        return (Vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
    }
};
#endif

// c [packed_rows, strip_cols] = (accumulate ? c : 0) + the product of two packed strips.
template <typename Multiply>
LM_INLINE void packed_tile(i64 words, const float* a, const float* b, float* c, i64 ldc,
                           bool accumulate) {
    // The tile of c is used only at the end, and is often in a lower cache.
#pragma GCC unroll 12
    for (int i = 0; i < packed_rows; ++i) {
#pragma GCC unroll 12
        for (int j = 0; j < packed_vectors; ++j) __builtin_prefetch(c + i * ldc + j * width, 1);
    }
    Vec sum[packed_rows][packed_vectors];
#pragma GCC unroll 12
    for (int i = 0; i < packed_rows; ++i) {
#pragma GCC unroll 12
        for (int j = 0; j < packed_vectors; ++j) sum[i][j] = Vec{};
    }
    for (i64 k = 0; k < words; ++k) {
        Vec right[packed_vectors];
#pragma GCC unroll 12
        for (int j = 0; j < packed_vectors; ++j) right[j] = load(b + k * strip_cols + j * width);
#pragma GCC unroll 12
        for (int i = 0; i < packed_rows; ++i) {
            const Vec left = splat(a[k * packed_rows + i]);
#pragma GCC unroll 12
            for (int j = 0; j < packed_vectors; ++j) {
                sum[i][j] = Multiply()(left, right[j], sum[i][j]);
            }
        }
    }
#pragma GCC unroll 12
    for (int i = 0; i < packed_rows; ++i) {
#pragma GCC unroll 12
        for (int j = 0; j < packed_vectors; ++j) {
            float* const at = c + i * ldc + j * width;
            store(at, accumulate ? load(at) + sum[i][j] : sum[i][j]);
        }
    }
}

// Computes a tile that is only partly inside of c. Writes the tile to a small array, and copies the
// `rows` rows and `cols` columns that c has.
template <typename Multiply>
LM_INLINE void packed_edge(i64 words, const float* a, const float* b, float* c, i64 ldc, i64 rows,
                           i64 cols, bool accumulate) {
    float tile[packed_rows * strip_cols];
    packed_tile<Multiply>(words, a, b, tile, strip_cols, false);
    for (i64 i = 0; i < rows; ++i) {
        for (i64 j = 0; j < cols; ++j) {
            float& at = c[i * ldc + j];
            at = accumulate ? at + tile[i * strip_cols + j] : tile[i * strip_cols + j];
        }
    }
}

// A strip of b is multiplied by pack_rows rows of a before the next strip is read.
template <typename Multiply>
void product_of_packed(const PackedProduct& p) {
    for (i64 row = 0; row < p.m; row += pack_rows) {
        const i64 end = p.m - row < pack_rows ? p.m : row + pack_rows;
        for (i64 j = 0; j < p.n; j += strip_cols) {
            const float* const b = p.b + j * p.words;
            const i64 cols = p.n - j;
            for (i64 i = row; i < end; i += packed_rows) {
                const float* const a = p.a + i * p.words;
                float* const c = p.c + i * p.ldc + j;
                if (end - i >= packed_rows && cols >= strip_cols) {
                    packed_tile<Multiply>(p.words, a, b, c, p.ldc, p.accumulate);
                } else {
                    packed_edge<Multiply>(p.words, a, b, c, p.ldc,
                                          end - i < packed_rows ? end - i : i64{packed_rows},
                                          cols < strip_cols ? cols : i64{strip_cols}, p.accumulate);
                }
            }
        }
    }
}

void packed_product(const PackedProduct& p) {
#if defined(LM_VECTOR_BF16)
    if (p.type == DType::bf16) return product_of_packed<MultiplyPairs>(p);
#endif
    product_of_packed<MultiplySingles>(p);
}

}  // namespace
}  // namespace lm::cpu
