// SPDX-License-Identifier: Apache-2.0
// One row of LayerNorm or RMSNorm, forward and backward. Part of all_loops.hpp.
#pragma once

namespace lm::cpu {
namespace {

// Returns residual + factors * branch for one vector of elements; absent terms count as 0, absent
// factors as 1.
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
    // Lanes beyond the end get the value `mean`, so that they add 0 to the sum of squares.
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

// With xhat = (sum - mean) * rstd and g = dy * weight:
// dsum = dsum_in + rstd * (g - mean(g) - xhat * mean(g * xhat)). RMSNorm has no mean(g) term. dsum
// may alias dsum_in, because the second pass reads each element before it writes the element.
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

}  // namespace
}  // namespace lm::cpu
