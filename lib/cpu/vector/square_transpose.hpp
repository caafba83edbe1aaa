// SPDX-License-Identifier: Apache-2.0
// Transposes of squares in registers and of matrices. Part of all_loops.hpp.
#pragma once

namespace lm::cpu {
namespace {

// These functions transpose n vectors (rows) of n lanes in registers in log2(n) rounds, one for
// each power of two d. In a round, rows a = i and b = i + d exchange lanes: a gives its lanes whose
// number has bit d, b gives its lanes whose number does not have bit d.
template <int d, typename V, int... lane>
LM_INLINE void exchange(V& a, V& b, Lanes<lane...>) {
    constexpr int n = sizeof...(lane);
    const V low = __builtin_shufflevector(a, b, ((lane & d) ? lane - d + n : lane)...);
    b = __builtin_shufflevector(a, b, ((lane & d) ? lane + n : lane + d)...);
    a = low;
}

template <int d, typename V, int n>
LM_INLINE void exchange_rows(V (&v)[n]) {
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) {
        if ((i & d) == 0) exchange<d>(v[i], v[i + d], lanes_of<n>());
    }
}

template <typename V, int n>
LM_INLINE void transpose_square(V (&v)[n]) {
    static_assert(sizeof v[0] == n * 4);
    if constexpr (n > 8) exchange_rows<8>(v);
    if constexpr (n > 4) exchange_rows<4>(v);
    exchange_rows<2>(v);
    exchange_rows<1>(v);
}

void transpose(i64 rows, i64 cols, const float* x, i64 ldx, float factor, float* y, i64 ldy) {
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
                y[c * ldy + r + i] = x[(r + i) * ldx + c] * factor;
            }
        }
    }
    for (int i = 0; i < width && r + i < rows; ++i) {
        const float* const row = x + (r + i) * ldx;
        for (i64 c = 0; c < cols; ++c) y[c * ldy + r + i] = row[c] * factor;
    }
}

}  // namespace
}  // namespace lm::cpu
