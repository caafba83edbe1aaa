// SPDX-License-Identifier: Apache-2.0
// Products of a few vectors with the rows of a matrix that is read once from memory. They compute
// the linear layers of a model that generates one token at a time. Part of all_loops.hpp.
#pragma once

namespace lm::cpu {
namespace {

constexpr int product_group = 4;  // rows of w that are read at the same time

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

// Computes y for `vectors` rows of x and `rows` rows of w. An element is a sum of 2 * width partial
// sums, in an order that depends on k only.
template <int vectors, int rows, typename T>
LM_INLINE void row_group(const float* x, i64 k_end, const T* w, float* y, i64 ldy) {
    Vec even[rows][vectors] = {};
    Vec odd[rows][vectors] = {};
    i64 k = 0;
    for (; k + 2 * width <= k_end; k += 2 * width) {
#pragma GCC unroll 4
        for (int j = 0; j < rows; ++j) {
            // The hardware prefetches only one stream in a page, so the code itself prefetches the
            // next rows.
            if (rows > 1) {
                __builtin_prefetch(w + (j + rows) * k_end + k, 0, 2);
                if (sizeof(T) == 4) __builtin_prefetch(w + (j + rows) * k_end + k + width, 0, 2);
            }
            const Vec a = load(w + j * k_end + k);
            const Vec b = load(w + j * k_end + k + width);
#pragma GCC unroll 4
            for (int i = 0; i < vectors; ++i) {
                even[j][i] = fma(a, load(x + i * k_end + k), even[j][i]);
                odd[j][i] = fma(b, load(x + i * k_end + k + width), odd[j][i]);
            }
        }
    }
    for (; k < k_end; k += width) {
        const i64 n = k_end - k < width ? k_end - k : i64{width};
        for (int j = 0; j < rows; ++j) {
            const Vec a = load_part(w + j * k_end + k, n);
            for (int i = 0; i < vectors; ++i) {
                even[j][i] = fma(a, load_part(x + i * k_end + k, n), even[j][i]);
            }
        }
    }
    for (int j = 0; j < rows; ++j) {
        for (int i = 0; i < vectors; ++i) y[i * ldy + j] = lane_sum(even[j][i] + odd[j][i]);
    }
}

template <int rows, typename T>
LM_INLINE void all_vectors(const RowProducts& p, const T* w, float* y) {
    i64 i = 0;
    for (; i + 2 <= p.m; i += 2) row_group<2, rows>(p.x + i * p.k, p.k, w, y + i * p.ldy, p.ldy);
    if (i < p.m) row_group<1, rows>(p.x + i * p.k, p.k, w, y + i * p.ldy, p.ldy);
}

template <typename T>
void row_products_of(const RowProducts& p) {
    const T* const w = static_cast<const T*>(p.w);
    i64 j = 0;
    for (; j + product_group <= p.n; j += product_group) {
        all_vectors<product_group>(p, w + j * p.k, p.y + j);
    }
    for (; j < p.n; ++j) all_vectors<1>(p, w + j * p.k, p.y + j);
}

void row_products(const RowProducts& p) {
    if (p.type == DType::bf16) return row_products_of<Bf16>(p);
    if (p.type == DType::fp16) return row_products_of<Fp16>(p);
    row_products_of<float>(p);
}

}  // namespace
}  // namespace lm::cpu
