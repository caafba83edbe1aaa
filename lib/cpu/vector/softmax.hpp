// SPDX-License-Identifier: Apache-2.0
// Softmax of attention, in blocks of a row, and of the cross-entropy. Part of all_loops.hpp.
#pragma once

namespace lm::cpu {
namespace {

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

// A block without visible keys changes neither max nor sum, and its weights are 0. Otherwise
// new_max is finite, so that masked scores (-inf) become exp(-inf) = 0 and never NaN.
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

void recompute_softmax(float* p, i64 n, i64 begin, i64 end, float slope, float first_index,
                       float lse) {
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

// Processes one part of a row, which stays in the L1 cache between the two passes. The rescaling
// follows Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018).
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

}  // namespace
}  // namespace lm::cpu
