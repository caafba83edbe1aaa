// SPDX-License-Identifier: Apache-2.0
// exp, and functions computed from it. Part of all_loops.hpp.
//
// exp(x) = 2^n exp(r) with n = round(x / ln 2) and r = x - n ln 2: argument reduction of Cody and
// Waite (ln 2 in two parts), and the polynomial of Cephes' expf for exp(r). The error is below 1.5
// ulp from -87.3 to 88.3. Below that range the result is zero (no denormals), above the range the
// result is constant. NaN stays NaN.
#pragma once

namespace lm::cpu {
namespace {

LM_INLINE Vec exponential(Vec x) {
    const Vec lowest = splat(-87.3365F);
    const Vec highest = splat(88.3762F);
    // Adding 1.5 * 2^23 rounds to an integer, which is then in the low bits of the float.
    const Vec magic = splat(12582912.0F);
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
    const Vec scaled = (Vec)((IntVec)p + ((IntVec)shifted << 23));  // p * 2^n: adds n to exponent
    const Vec flushed = x < lowest ? splat(0.0F) : scaled;
    return x == x ? flushed : x;
}

LM_INLINE Vec sigmoid(Vec x) {
    return 1.0F / (1.0F + exponential(-x));
}

// The standard normal distribution: its density at x, and the probability of values below x.
struct Normal {
    Vec density;
    Vec below;
};

// P(X < -a) = exp(-a^2 / 2) t p(t) with t = 1 / (1 + 0.26 a) for a >= 0 (the form of Hastings,
// "Approximations for digital computers", 1955, sheet 43); p is fitted over 0 <= a <= 14 to a
// relative error of 2.5e-8 (Lawson's iteration). Absolute errors in fp32 stay below 1e-7.
LM_INLINE Normal normal(Vec x) {
    const Vec a = x < 0.0F ? -x : x;
    const Vec t = 1.0F / fma(a, splat(0.26F), splat(1.0F));
    Vec p = splat(3.050480426e-2F);
    p = fma(p, t, splat(-1.528284695e-1F));
    p = fma(p, t, splat(2.514906312e-1F));
    p = fma(p, t, splat(-1.509482927e-1F));
    p = fma(p, t, splat(1.609474439e-1F));
    p = fma(p, t, splat(5.102783781e-2F));
    p = fma(p, t, splat(1.030302182e-1F));
    p = fma(p, t, splat(1.030167550e-1F));
    p = fma(p, t, splat(1.037590596e-1F));
    const Vec e = exponential(-0.5F * x * x);
    const Vec tail = p * t * e;
    return {e * 0.398942280401F, x < 0.0F ? tail : 1.0F - tail};
}

}  // namespace
}  // namespace lm::cpu
