// SPDX-License-Identifier: Apache-2.0
// Products of a few vectors with the rows of a matrix that is read once from memory. They compute
// the linear layers of a model that generates one token at a time. Part of all_loops.hpp.
#pragma once

namespace lm::cpu {
namespace {

constexpr int product_group = 4;  // rows of w that are read at the same time
// Rows of x that are read at the same time. The sums fill half of the registers.
constexpr int vector_group = width > 8 ? 4 : 2;

// add_lanes() adds lane ^ d to each lane. lane_sum() returns the sum of all lanes. Both work in
// registers, because horizontal_sum() takes as long as the product of a row of 500 numbers.
template <int d, int... lane>
LM_INLINE Vec add_lanes(Vec v, Lanes<lane...>) {
    return v + __builtin_shufflevector(v, v, (lane ^ d)...);
}
LM_INLINE float lane_sum(Vec v) {
    if constexpr (width > 8) v = add_lanes<8>(v, AllLanes{});
    if constexpr (width > 4) v = add_lanes<4>(v, AllLanes{});
    v = add_lanes<2>(v, AllLanes{});
    return add_lanes<1>(v, AllLanes{})[0];
}

// Returns the sums that lane_sum() would return for 2 * d vectors, in the order of the vectors, if
// 2 * d is `width`. All take a few shuffles more than one of them takes.
template <int d, int... lane>
LM_INLINE Vec fold(Vec a, Vec b, Lanes<lane...>) {
    return __builtin_shufflevector(a, b, ((lane & d) != 0 ? width + lane : lane)...) +
           __builtin_shufflevector(a, b, ((lane & d) != 0 ? width + (lane ^ d) : lane ^ d)...);
}
template <int d>
LM_INLINE Vec lane_sums(Vec* v) {
    for (int i = 0; i < d; ++i) v[i] = fold<d>(v[i], v[i + d], AllLanes{});
    if constexpr (d > 1)
        return lane_sums<d / 2>(v);
    else
        return v[0];
}

// Computes y for `vectors` rows of x and `rows` rows of w. An element is a sum of `width` partial
// sums, in an order that depends on k only.
template <int vectors, int rows, typename T>
LM_INLINE void row_group(const float* x, i64 k_end, const T* w, float* y, i64 ldy) {
    Vec sums[vectors * rows] = {};
    i64 k = 0;
    for (; k + width <= k_end; k += width) {
        Vec of_x[vectors];
#pragma GCC unroll 4
        for (int i = 0; i < vectors; ++i) of_x[i] = load(x + i * k_end + k);
#pragma GCC unroll 4
        for (int j = 0; j < rows; ++j) {
            // The hardware prefetches only one stream in a page, so the code itself prefetches the
            // next rows.
            if (rows > 1) __builtin_prefetch(w + (j + rows) * k_end + k, 0, 2);
            const Vec of_w = load(w + j * k_end + k);
#pragma GCC unroll 4
            for (int i = 0; i < vectors; ++i) {
                sums[i * rows + j] = fma(of_w, of_x[i], sums[i * rows + j]);
            }
        }
    }
    if (k < k_end) {
        const i64 n = k_end - k;
        for (int j = 0; j < rows; ++j) {
            const Vec of_w = load_part(w + j * k_end + k, n);
            for (int i = 0; i < vectors; ++i) {
                sums[i * rows + j] = fma(of_w, load_part(x + i * k_end + k, n), sums[i * rows + j]);
            }
        }
    }
    if constexpr (vectors * rows == width) {
        const Vec all = lane_sums<width / 2>(sums);
        for (int i = 0; i < vectors; ++i) {
            __builtin_memcpy(y + i * ldy, reinterpret_cast<const float*>(&all) + i * rows,
                             rows * sizeof(float));
        }
    } else {
        for (int i = 0; i < vectors; ++i) {
            for (int j = 0; j < rows; ++j) y[i * ldy + j] = lane_sum(sums[i * rows + j]);
        }
    }
}

// Computes y for `vectors` rows of x, which stay in the L1 cache, and all rows of w.
template <int vectors, typename T>
void all_rows(const RowProducts& p, const float* x, float* y) {
    const T* const w = static_cast<const T*>(p.w);
    i64 j = 0;
    for (; j + product_group <= p.n; j += product_group) {
        row_group<vectors, product_group>(x, p.k, w + j * p.k, y + j, p.ldy);
    }
    for (; j < p.n; ++j) row_group<vectors, 1>(x, p.k, w + j * p.k, y + j, p.ldy);
}

template <typename T>
void row_products_of(const RowProducts& p) {
    i64 i = 0;
    const auto take = [&](auto rows, i64 n) {
        rows(p, p.x + i * p.k, p.y + i * p.ldy);
        i += n;
    };
    while (i + vector_group <= p.m) take(all_rows<vector_group, T>, vector_group);
    if (i + 2 <= p.m) take(all_rows<2, T>, 2);
    if (i < p.m) take(all_rows<1, T>, 1);
}

void row_products(const RowProducts& p) {
    if (p.type == DType::bf16) return row_products_of<Bf16>(p);
    if (p.type == DType::fp16) return row_products_of<Fp16>(p);
    row_products_of<float>(p);
}

}  // namespace
}  // namespace lm::cpu
